//! The differences of co-run and solo run, and the dominant resource contention (snu2020 §4.3.1).

use serde::{Deserialize, Serialize};

use crate::kit::contention::{Resource, is_nothing};
use crate::kit::profile::Usage;

/// The four diffs; None: not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diffs {
    /// LLC_HR co-run − LLC_HR solo-run. It never exceeds 1.
    pub llc: Option<f64>,
    /// MemBW co-run / MemBW solo-run − 1. Never below −1.
    pub mem_bw: Option<f64>,
    /// IPS co-run / IPS solo-run − 1. Never below −1.
    pub ips: Option<f64>,
    /// Active threads per allocated core now, less those at the look before.
    pub threads_per_core: Option<f64>,
    /// Active threads per allocated core now.
    pub active: Option<f64>,
}

impl Diffs {
    /// Co-run against solo-run. `cores` are those allocated now; `before` are the active threads per core of the look before.
    #[must_use]
    pub fn between(solo: &Usage, co_run: &Usage, cores: u32, before: Option<f64>) -> Diffs {
        let ratio = |solo: Option<f64>, co_run: Option<f64>| {
            solo.zip(co_run).filter(|(solo, _)| *solo > 0.0).map(|(solo, co_run)| co_run / solo - 1.0)
        };
        let bandwidth = ratio(solo.memory_bandwidth, co_run.memory_bandwidth);
        let active = co_run.active.map(|threads| threads / f64::from(cores.max(1)));
        Diffs {
            llc: solo.llc_hit_ratio.zip(co_run.llc_hit_ratio).map(|(solo, co_run)| co_run - solo),
            mem_bw: if is_nothing(solo, co_run) { bandwidth.map(|_| 0.0) } else { bandwidth },
            ips: ratio(solo.instructions, co_run.instructions),
            threads_per_core: active.zip(before).map(|(now, before)| now - before),
            active,
        }
    }

    /// Without counters memory is one resource: a reference takes this many times as long now as in the solo run.
    #[must_use]
    pub fn or_memory_slowdown(mut self, solo: Option<f64>, co_run: Option<f64>) -> Diffs {
        if self.llc.is_none() && self.mem_bw.is_none() {
            self.mem_bw = solo.zip(co_run).filter(|(_, now)| *now > 0.0).map(|(solo, now)| solo / now - 1.0);
        }
        self
    }

    /// The dominant resource contention (DRC), and its diff: the CPU if more threads are active than the threshold a core;
    /// else the resource with the largest negative diff. Where no diff is negative it is that with the smallest one: what
    /// was taken for it can be given back. None if nothing is measured.
    #[must_use]
    pub fn dominant(&self, threads_per_core: f64) -> Option<(Resource, f64)> {
        if let Some(active) = self.active.filter(|active| *active > threads_per_core) {
            return Some((Resource::Cpu, threads_per_core / active - 1.0));
        }
        let of = |resource, diff: Option<f64>| diff.map(|diff| (resource, diff));
        let both = [of(Resource::Llc, self.llc), of(Resource::MemoryBandwidth, self.mem_bw)];
        both.into_iter().flatten().min_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// The diff that a search against this resource follows: of the CPU that of instructions, which "are used for
    /// allocating cores".
    #[must_use]
    pub fn of(&self, resource: Resource, threads_per_core: f64) -> Option<f64> {
        match resource {
            Resource::Llc => self.llc,
            Resource::MemoryBandwidth => self.mem_bw,
            Resource::Cpu => match self.dominant(threads_per_core) {
                Some((Resource::Cpu, diff)) => Some(diff),
                _ => self.ips.map(|diff| diff.max(0.0)),
            },
        }
    }

    /// Does one of them differ by more than this part: "one of the abs(diffs) > 1"?
    #[must_use]
    pub fn exceed(&self, phase_change: f64) -> bool {
        [self.llc, self.mem_bw, self.ips].into_iter().flatten().any(|diff| diff.abs() > phase_change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Co-run data of which the example's diffs follow.
    fn usages() -> (Usage, Usage) {
        let solo = Usage {
            llc_hit_ratio: Some(0.8),
            memory_bandwidth: Some(1e9),
            instructions: Some(2e9),
            active: Some(2.0),
            ..Usage::default()
        };
        let co_run = Usage {
            llc_hit_ratio: Some(0.549),
            memory_bandwidth: Some(1.449e9),
            instructions: Some(1.748e9),
            active: Some(4.0),
            ..Usage::default()
        };
        (solo, co_run)
    }

    /// "diffs are -0.251 (LLC), 0.449 (Mem_BW), -0.126 (IPS), and 1 (NumTh/cores), respectively, then EdgeIso determines the
    /// LLC contention as the DRC" (§4.3.1).
    #[test]
    fn the_examples_four_diffs_are_contention_for_the_llc() {
        let (solo, co_run) = usages();
        let diffs = Diffs::between(&solo, &co_run, 2, Some(1.0));
        let near = |diff: Option<f64>, wanted: f64| assert!((diff.unwrap() - wanted).abs() < 1e-9, "{diff:?} {wanted}");
        near(diffs.llc, -0.251);
        near(diffs.mem_bw, 0.449);
        near(diffs.ips, -0.126);
        near(diffs.threads_per_core, 1.0);
        assert_eq!(diffs.dominant(2.0).map(|(resource, _)| resource), Some(Resource::Llc));
    }

    #[test]
    fn too_many_threads_are_contention_for_the_cpu_before_all_else() {
        let (solo, co_run) = usages();
        let diffs = Diffs::between(&solo, &Usage { active: Some(5.0), ..co_run }, 2, None);
        let (resource, diff) = diffs.dominant(2.0).unwrap();
        assert_eq!(resource, Resource::Cpu);
        assert!((diff + 0.2).abs() < 1e-9, "{diff}");
        assert_eq!(diffs.threads_per_core, None);
    }

    #[test]
    fn what_is_not_measured_is_no_contention_and_the_canary_stands_in_for_memory() {
        let none = Diffs::between(&Usage::default(), &Usage::default(), 1, None);
        assert_eq!(none.dominant(2.0), None);
        let canary = none.or_memory_slowdown(Some(1.1), Some(2.2));
        assert_eq!(canary.dominant(2.0).map(|(resource, _)| resource), Some(Resource::MemoryBandwidth));
        assert!((canary.mem_bw.unwrap() + 0.5).abs() < 1e-9);
        let (solo, co_run) = usages();
        let counted = Diffs::between(&solo, &co_run, 2, None);
        assert_eq!(counted.or_memory_slowdown(Some(1.0), Some(9.0)), counted, "counters are better");
    }

    #[test]
    fn who_moves_few_bytes_is_no_victim_of_bandwidth() {
        let of = |bytes| Usage { memory_bandwidth: Some(bytes), cpus: Some(4.0), ..Usage::default() };
        assert_eq!(Diffs::between(&of(0.14e9), &of(0.12e9), 4, None).mem_bw, Some(0.0));
        assert_eq!(Diffs::between(&of(8e9), &of(6e9), 4, None).mem_bw, Some(-0.25));
        assert_eq!(Diffs::between(&of(0.14e9), &of(0.7e9), 4, None).mem_bw, Some(4.0), "another phase");
    }

    #[test]
    fn a_fallen_load_is_never_another_phase() {
        let (solo, co_run) = usages();
        let idle = Usage { memory_bandwidth: Some(0.0), instructions: Some(0.0), llc_hit_ratio: Some(0.0), ..co_run };
        assert!(!Diffs::between(&solo, &idle, 2, None).exceed(1.0));
        let busy = Usage { memory_bandwidth: Some(2.1e9), ..co_run };
        assert!(Diffs::between(&solo, &busy, 2, None).exceed(1.0));
    }
}
