//! One server a CPU, and threads where their servers are.

use quell_model::CpuSet;

use super::Vas;
use crate::invariant::{Calm, Invariants};

impl Invariants for Vas {
    fn check(&self, calm: &Calm<'_>) {
        let mut taken = CpuSet::EMPTY;
        for (id, spec) in calm.view.owned() {
            let own = self.cpus_of(id);
            let asks = spec.demand.as_ref().map_or(0, |demand| demand.servers as usize);
            assert!(own.is_empty() || own.len() == asks, "{} asks for {asks} and has {own}", spec.name);
            assert!(own.is_disjoint(&taken), "one server a CPU: {own} of {}, {taken}", spec.name);
            assert!(own.is_empty() || calm.of(id).cpus == own, "{} runs where it has servers", spec.name);
            taken = taken.union(&own);
        }
        assert!(taken.is_subset(&calm.cpus));
    }
}
