//! Contention: a workload's usage beside others, less its usage alone (snu2020 §3.4.1, §4.3.1).

use super::profile::Usage;

pub use quell_model::trial::Resource;

/// The difference of co-run and solo-run per resource: negative where the foreground gets less than alone.
///
/// The dissertation gives the formulas for LLC and memory bandwidth in §4.3.1. For the CPU, whose metric chapter 3 does
/// not state, we take CPU time per second in the same form.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Contention {
    diffs: [Option<f64>; 3],
}

impl Contention {
    /// Co-run against solo-run.
    #[must_use]
    pub fn between(solo: &Usage, co_run: &Usage) -> Contention {
        let ratio = |solo: Option<f64>, co_run: Option<f64>| {
            solo.zip(co_run).filter(|(solo, _)| *solo > 0.0).map(|(solo, co_run)| co_run / solo - 1.0)
        };
        let llc = solo.llc_hit_ratio.zip(co_run.llc_hit_ratio).map(|(solo, co_run)| co_run - solo);
        let bandwidth = ratio(solo.memory_bandwidth, co_run.memory_bandwidth);
        Contention { diffs: [llc, bandwidth, ratio(solo.cpus, co_run.cpus)] }
    }

    /// The same, with CPU contention in place of the one by CPU time.
    #[must_use]
    pub fn with_cpu(mut self, diff: Option<f64>) -> Contention {
        self.diffs[Resource::Cpu as usize] = diff;
        self
    }

    /// The same, with memory bandwidth compared per CPU time.
    #[must_use]
    pub fn per_cpu_time(mut self, solo: &Usage, co_run: &Usage) -> Contention {
        let rate =
            |usage: &Usage| usage.memory_bandwidth.zip(usage.cpus.filter(|cpus| *cpus > 0.0)).map(|(b, c)| b / c);
        let both = rate(solo).zip(rate(co_run)).filter(|(solo, _)| *solo > 0.0);
        self.diffs[Resource::MemoryBandwidth as usize] = both.map(|(solo, co_run)| co_run / solo - 1.0);
        self
    }

    /// The difference for one resource; None where it was not measured.
    #[must_use]
    pub fn of(&self, resource: Resource) -> Option<f64> {
        self.diffs[resource as usize]
    }

    /// The most contentious resource, if one lies below the solo run by more than the threshold.
    #[must_use]
    pub fn dominant(&self, threshold: f64) -> Option<Resource> {
        let contended = |resource: &Resource| self.of(*resource).is_some_and(|diff| diff < -threshold);
        let least =
            |a: &Resource, b: &Resource| self.of(*a).unwrap_or_default().total_cmp(&self.of(*b).unwrap_or_default());
        Resource::ALL.into_iter().filter(contended).min_by(least)
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::tests::usage;
    use super::*;

    #[test]
    fn the_most_negative_difference_is_dominant() {
        let solo = usage(0.9, 10e9, 2.0);
        let contention = Contention::between(&solo, &usage(0.7, 7e9, 2.0));
        assert_eq!(contention.dominant(0.05), Some(Resource::MemoryBandwidth));
        let contention = Contention::between(&solo, &usage(0.5, 9e9, 2.0));
        assert_eq!(contention.dominant(0.05), Some(Resource::Llc));
        assert_eq!(Contention::between(&solo, &usage(0.87, 9.8e9, 1.95)).dominant(0.05), None);
    }

    #[test]
    fn what_was_not_measured_is_no_contention() {
        let solo = Usage { llc_hit_ratio: None, ..usage(0.9, 0.0, 2.0) };
        let contention = Contention::between(&solo, &usage(0.1, 5e9, 2.0));
        assert_eq!((contention.of(Resource::Llc), contention.of(Resource::MemoryBandwidth)), (None, None));
        assert_eq!(contention.dominant(0.05), None);
    }
}
