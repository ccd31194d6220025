//! The foreground and the background are kept apart and have everything together.

use super::His;
use crate::invariant::{Calm, Invariants};

/// The ways of the machines that these are held against.
const WAYS: u32 = 20;

impl Invariants for His {
    const VARIANTS: &'static [&'static str] = &[r#"{"outdated": "2s", "solo": "300ms"}"#];

    fn check(&self, calm: &Calm<'_>) {
        let Some(isolation) = self.isolation() else {
            for (id, spec) in calm.best_effort() {
                assert_eq!(calm.of(id).cpus, calm.cpus, "without a foreground {} is not confined", spec.name);
            }
            return;
        };
        let cores = isolation.cores as usize;
        let foreground = calm.latency_critical().find(|(id, _)| calm.of(*id).cpus.len() == cores);
        let (foreground, _) = foreground.expect("the foreground has its cores");
        let mut together = calm.of(foreground).cpus;
        for (id, _) in calm.best_effort() {
            let has = calm.of(id);
            assert!(calm.cpus.len() < 2 || has.cpus.len() == calm.cpus.len() - cores);
            let apart = has.ways.count_ones() + isolation.ways.unwrap_or(0);
            assert_eq!(apart, WAYS, "ways of the foreground and of the background are all ways");
            together = together.union(&has.cpus);
        }
        assert_eq!(together, calm.cpus);
    }
}
