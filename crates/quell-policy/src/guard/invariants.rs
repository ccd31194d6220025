//! Only workloads with a guarantee are real-time.

use quell_model::{CpuCount, SchedClass};

use super::Guard;
use crate::invariant::{Calm, Invariants};

impl Invariants for Guard {
    fn check(&self, calm: &Calm<'_>) {
        for (id, spec) in calm.best_effort() {
            let classes = &calm.of(id).classes;
            assert!(classes.iter().all(|class| !class.is_real_time()), "{} is best-effort", spec.name);
        }
        for (id, spec) in calm.latency_critical().filter(|(_, spec)| spec.cpus == CpuCount::ZERO) {
            let classes = &calm.of(id).classes;
            assert!(classes.iter().all(|class| *class == SchedClass::NORMAL), "{} has no guarantee", spec.name);
        }
    }
}
