//! Every service has CPUs of its own, and all CPUs are given out.

use quell_model::CpuSet;

use super::Parties;
use crate::invariant::{Calm, Invariants};

impl Invariants for Parties {
    fn check(&self, calm: &Calm<'_>) {
        let (services, others) = (calm.latency_critical().count(), usize::from(calm.best_effort().next().is_some()));
        if services + others > calm.cpus.len() || services + others == 0 {
            return;
        }
        let mut taken = CpuSet::EMPTY;
        for (id, spec) in calm.latency_critical().chain(calm.best_effort().take(1)) {
            let own = calm.of(id).cpus;
            assert!(!own.is_empty() && own.is_disjoint(&taken), "{} has CPUs of its own", spec.name);
            taken = taken.union(&own);
        }
        assert_eq!(taken, calm.cpus, "all CPUs are given out");
    }
}
