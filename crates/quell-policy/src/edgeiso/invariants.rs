//! Where there are CPUs enough every task has CPUs of its own, and no more than its part of the machine.

use super::EdgeIso;
use crate::invariant::{Calm, Invariants};

impl Invariants for EdgeIso {
    const VARIANTS: &'static [&'static str] = &[r#"{"solo": "400ms", "slice": "200ms", "stop": 0.0}"#];

    fn check(&self, calm: &Calm<'_>) {
        let isolation = self.isolation();
        if !self.is_on() {
            for (id, spec) in calm.best_effort() {
                assert_eq!(calm.of(id).cpus, calm.cpus, "without a task to isolate {} is not confined", spec.name);
            }
            return;
        }
        for share in &isolation.shares {
            let has = calm.of(share.id);
            assert!(has.ways != 0);
            assert!(share.throttled == 0 || share.had_quota);
            if !isolation.is_divided {
                assert_eq!(has.cpus, calm.cpus, "{:?} shares all CPUs", share.id);
                continue;
            }
            assert!(!share.cpus.is_empty() && has.cpus.is_subset(&share.cpus), "{has:?} {share:?}");
            let is_critical = |id| calm.latency_critical().any(|(other, _)| other == id);
            for other in isolation.shares.iter().filter(|other| other.id != share.id && is_critical(share.id)) {
                assert!(has.cpus.is_disjoint(&calm.of(other.id).cpus), "{:?} and {:?} share CPUs", share.id, other.id);
            }
        }
        if let Some((owner, _)) = isolation.ways {
            let own = calm.of(owner).ways;
            let others = isolation.shares.iter().filter(|share| share.id != owner);
            others.for_each(|share| assert_eq!(calm.of(share.id).ways & own, 0, "{:?} has its ways", share.id));
        }
    }
}
