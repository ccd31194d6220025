//! The kernel that experiments begin from. `quell-lab paper --without` leaves something out of it: in a process of its own for
//! each such kernel.

use std::sync::OnceLock;

use crate::mechanisms::{Mechanism, Mechanisms};
use crate::{KernelConfig, Loads};

static LEFT_OUT: OnceLock<KernelConfig> = OnceLock::new();

/// What stands for decaying loads among what can be left out.
pub const DECAYING_LOADS: &str = "decaying-loads";

/// [`KernelConfig::default`], less what was left out.
#[must_use]
pub fn usual_kernel() -> KernelConfig {
    LEFT_OUT.get().cloned().unwrap_or_default()
}

/// From now on kernels have these mechanisms no more, in all of this process. Once, before anything runs.
///
/// # Errors
/// The end of a sentence: a name that is none, or that it was done before.
pub fn leave_out(names: &[String]) -> Result<(), String> {
    let mut kernel = KernelConfig::default();
    let mut left_out = Vec::new();
    for name in names {
        match Mechanism::ALL.into_iter().find(|one| one.name() == name) {
            Some(one) => left_out.push(one),
            None if name == DECAYING_LOADS => kernel.loads = Loads::Present,
            None => {
                let known: Vec<&str> = Mechanism::ALL.iter().map(|one| one.name()).collect();
                return Err(format!("there is no '{name}'; there are: {}, {DECAYING_LOADS}", known.join(", ")));
            }
        }
    }
    kernel.without = Mechanisms::from(left_out);
    LEFT_OUT.set(kernel).map_err(|_| "mechanisms were left out before".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_none_of_them_is_refused_with_their_names() {
        let error = leave_out(&["random-newidle-balance".into(), "cards".into()]).unwrap_err();
        assert!(error.contains("'cards'") && error.contains("tick-phase, decaying-loads"), "{error}");
        assert_eq!(usual_kernel(), KernelConfig::default());
    }
}
