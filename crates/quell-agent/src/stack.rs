//! The agent's stack: the loop of [`quell_model::Stack`] over any policies on one machine, and its observers.

use quell_model::{Capabilities, CpuSet, View};
use quell_policy::AnyPolicy;

use crate::AgentError;

/// One policy of the stack.
pub type Layer = quell_model::Layer<AnyPolicy>;
/// The layers in order, and the view that they share.
pub type Stack = quell_model::Stack<AnyPolicy>;

/// A stack over these CPUs.
///
/// # Errors
/// [`AgentError::Overlap`] if two layers would set the same knob or rule on the same workload.
pub fn over(layers: Vec<Layer>, view: View, pool: CpuSet) -> Result<Stack, AgentError> {
    if let Some(clash) = quell_model::clashes(&layers, &pool).first() {
        return Err(AgentError::Overlap {
            first: quell_model::Policy::describe(&layers[clash.first].policy).name,
            second: quell_model::Policy::describe(&layers[clash.second].policy).name,
            what: clash.overlap.what,
            on: clash.overlap.workload.map_or("on every workload".into(), |id| {
                let spec = view.workloads.spec.get(id.index()).and_then(|spec| spec.as_ref());
                spec.map_or(format!("on workload {}", id.0), |spec| format!("on '{}'", spec.name))
            }),
        });
    }
    Ok(Stack::new(layers, view, pool).expect("no two layers clash"))
}

/// The same layers, for a host with these capabilities: a rule or a knob that it declared impossible is in none of their plans.
#[must_use]
pub fn curbed(mut layers: Vec<Layer>, capabilities: &Capabilities) -> Vec<Layer> {
    let impossible = capabilities.impossible();
    layers.iter_mut().for_each(|layer| layer.impossible.clone_from(&impossible));
    layers
}

/// Sees every turn and cannot change it. Called on the loop's thread: it must be quick and must not block.
pub trait Witness {
    /// A turn is over; `view.scope` is no layer's.
    fn turned(&mut self, view: &View, layers: &[Layer]);
}

impl<A: Witness, B: Witness> Witness for (A, B) {
    fn turned(&mut self, view: &View, layers: &[Layer]) {
        self.0.turned(view, layers);
        self.1.turned(view, layers);
    }
}

impl<W: Witness + ?Sized> Witness for &mut W {
    fn turned(&mut self, view: &View, layers: &[Layer]) {
        (**self).turned(view, layers);
    }
}

impl<W: Witness> Witness for Option<W> {
    fn turned(&mut self, view: &View, layers: &[Layer]) {
        self.iter_mut().for_each(|witness| witness.turned(view, layers));
    }
}

impl Witness for () {
    fn turned(&mut self, _: &View, _: &[Layer]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::{Topology, WorkloadId};

    fn layer(name: &str, workloads: Option<Vec<WorkloadId>>) -> Layer {
        Layer::new(AnyPolicy::named(name).unwrap(), workloads)
    }

    fn view() -> View {
        View::new(Topology::synthetic(1, 1, 4, 1).into())
    }

    #[test]
    fn two_policies_for_one_knob_are_refused_by_name() {
        let pool = CpuSet::first(4);
        let both = vec![layer("rkube", None), layer("rkube", Some(vec![WorkloadId(0)]))];
        let text = over(both, view(), pool).unwrap_err().to_string();
        assert!(text.contains("'rkube' and 'rkube'") && text.contains("'CPU set'"), "{text}");
        let apart = vec![layer("rkube", None), layer("guard", None)];
        assert!(over(apart, view(), pool).is_ok(), "they set different knobs");
    }
}
