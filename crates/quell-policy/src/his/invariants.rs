//! The foreground and the background of each group are kept apart and have nothing but the group's CPUs.

use quell_model::CpuSet;

use super::His;
use crate::invariant::{Calm, Invariants};

impl Invariants for His {
    const VARIANTS: &'static [&'static str] =
        &[r#"{"outdated": "2s", "solo": "300ms"}"#, r#"{"throttle": true, "load_aware": true, "stop": 0.0}"#];

    fn check(&self, calm: &Calm<'_>) {
        let mut left = calm.cpus;
        let mut confined: Vec<_> = Vec::new();
        for (place, isolation) in self.groups() {
            let foreground = calm.of(place.foreground);
            let mut together: CpuSet = foreground.cpus;
            for &id in &place.background {
                let has = calm.of(id);
                assert!(
                    calm.cpus.len() < 2 || has.cpus.len() <= isolation.background as usize,
                    "{has:?} {isolation:?}"
                );
                assert!(
                    calm.cpus.len() < 2 || has.cpus.is_disjoint(&foreground.cpus),
                    "{id:?} has the foreground's CPUs"
                );
                if isolation.ways.is_some() {
                    assert_eq!(has.ways & foreground.ways, 0, "{id:?} has the foreground's ways");
                }
                assert!(has.ways != 0);
                together = together.union(&has.cpus);
                confined.push(id);
            }
            assert!(foreground.cpus.len() <= isolation.cores as usize);
            assert!(together.is_subset(&left), "two groups have a CPU in common");
            left = left.difference(&together);
        }
        for (id, spec) in calm.best_effort().filter(|(id, _)| !confined.contains(id)) {
            assert_eq!(calm.of(id).cpus, calm.cpus, "without a foreground {} is not confined", spec.name);
        }
    }
}
