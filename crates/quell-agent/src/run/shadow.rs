//! A host that observes the machine and carries nothing out.

use quell_model::{
    Capabilities, Event, Host, LeaseRequest, Outcome, Part, Plan, Refusal, SignalSet, Verdict, View, Wake,
};

/// Observes with the host below, and answers every command as if it had been carried out. Solo runs are refused: there
/// would be no solo run to measure.
#[derive(Debug)]
pub struct Shadow<'a, H: ?Sized> {
    below: &'a mut H,
}

impl<'a, H: Host + ?Sized> Shadow<'a, H> {
    /// A shadow of this host.
    pub fn of(below: &'a mut H) -> Shadow<'a, H> {
        Shadow { below }
    }
}

impl<H: Host + ?Sized> Host for Shadow<'_, H> {
    type Error = H::Error;

    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }

    fn observe(&mut self, wanted: SignalSet, view: &mut View, events: &mut Vec<Event>) -> Result<(), H::Error> {
        self.below.observe(wanted, view, events)
    }

    fn apply(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), H::Error> {
        let mut answer = |part, verdict| events.push(Event::Outcome(Outcome { plan: plan.number, part, verdict }));
        let done = || Verdict::Applied(quell_model::Nanos::ZERO);
        if !plan.knobs.is_empty() {
            answer(Part::Knobs, done());
        }
        (0..plan.grants.len() as u32).for_each(|at| answer(Part::Grant(at), done()));
        (0..plan.rules.len() as u32).for_each(|at| answer(Part::Rule(at), done()));
        let no = || Verdict::Refused(Refusal::Forbidden("a shadow changes and measures nothing".into()));
        (0..plan.samples.len() as u32).for_each(|at| answer(Part::Sample(at), no()));
        for (at, lease) in plan.leases.iter().enumerate() {
            let verdict = match lease {
                LeaseRequest::Begin(_) => no(),
                LeaseRequest::End(_) | LeaseRequest::Pass { .. } => Verdict::Vanished,
            };
            answer(Part::Lease(at as u32), verdict);
        }
        Ok(())
    }

    fn wait(&mut self, until: Wake) -> Result<(), H::Error> {
        self.below.wait(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{Layer, Stack};
    use quell_linux::HostOptions;
    use quell_linux::testkit::FakeTree;
    use quell_model::{Class, CpuCount, CpuSet, Selector, Topology, Workload};
    use quell_policy::AnyPolicy;

    #[test]
    fn a_shadow_decides_and_writes_nothing() {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        let group = tree.cgroup("batch");
        tree.process(10, 1, "work");
        tree.join("batch", &[10]);
        let mut host = tree.host(HostOptions::default()).unwrap();
        let selectors = vec![Selector::Cgroup("batch".into())];
        host.attach(Workload { selectors, ..Workload::new("b", Class::BestEffort, CpuCount::ZERO) }).unwrap();
        let layers = vec![Layer::new(AnyPolicy::named("guard").unwrap(), None)];
        let mut stack = Stack::new(layers, View::new(host.topology()), CpuSet::first(4)).unwrap();
        stack.turn(&mut Shadow::of(&mut host)).unwrap();
        assert!(!stack.layers()[0].plan.knobs.is_empty(), "it decided");
        stack.turn(&mut Shadow::of(&mut host)).unwrap();
        assert!(stack.layers()[0].plan.knobs.is_empty(), "and was informed that it was done");
        assert_eq!(std::fs::read_to_string(group.join("cpu.idle")).unwrap().trim(), "0");
        assert!(host.touched().is_empty());
    }
}
