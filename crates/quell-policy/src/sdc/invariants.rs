//! A service has cores of its own where there are enough; each workload has a CPU.

use super::{Pins, SdcLocal};
use crate::invariant::{Calm, Invariants};

impl Invariants for SdcLocal {
    const VARIANTS: &'static [&'static str] = &[r#"{"interval": "1s", "pins": "threads"}"#];

    fn check(&self, calm: &Calm<'_>) {
        for (id, spec) in calm.view.owned() {
            assert!(!calm.of(id).cpus.is_empty(), "{} has a CPU", spec.name);
        }
        let threads = calm.view.topology.cores().iter().map(|core| core.intersection(&calm.cpus).len()).max();
        let of = |units: u32| units.max(1).div_ceil(threads.unwrap_or(1) as u32) as usize;
        let asked: usize = calm.latency_critical().map(|(_, spec)| of(spec.cpus.ceil())).sum();
        let by_thread = self.config.pins == Pins::Threads || calm.latency_critical().any(|(_, spec)| spec.cpus.0 == 0);
        let cores = calm.view.topology.cores().iter().filter(|core| !core.is_disjoint(&calm.cpus)).count();
        if by_thread || asked + self.config.kept.max(1) as usize > cores {
            return;
        }
        for (id, spec) in calm.latency_critical() {
            let own = calm.of(id).cpus;
            for (other, of) in calm.view.owned().filter(|(other, _)| *other != id) {
                assert!(own.is_disjoint(&calm.of(other).cpus), "{} shares CPUs with {}", spec.name, of.name);
            }
        }
    }
}
