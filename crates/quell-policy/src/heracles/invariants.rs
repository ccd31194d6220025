//! Service and best-effort work have CPUs and ways of their own while best-effort work is on.

use super::Heracles;
use crate::invariant::{Calm, Invariants};

impl Invariants for Heracles {
    const VARIANTS: &'static [&'static str] = &[
        r#"{"form": "thesis", "interval": "200ms", "subinterval": "200ms", "frequency": true}"#,
        r#"{"form": "printed", "interval": "500ms", "subinterval": "300ms", "cooldown": "2s"}"#,
    ];

    fn check(&self, calm: &Calm<'_>) {
        let Some((cores, _)) = self.best_effort() else { return };
        for (id, spec) in calm.best_effort() {
            let has = calm.of(id);
            assert!(has.cpus.len() <= cores as usize || calm.cpus.len() < 2, "{} has {}", spec.name, has.cpus);
            for (other, service) in calm.latency_critical() {
                let its = calm.of(other);
                assert!(its.cpus.is_disjoint(&has.cpus) || calm.cpus.len() < 2, "{} and {}", spec.name, service.name);
            }
        }
    }
}
