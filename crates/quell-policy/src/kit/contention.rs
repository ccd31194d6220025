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
        let bandwidth = if is_nothing(solo, co_run) { bandwidth.map(|_| 0.0) } else { bandwidth };
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
        if is_nothing(solo, co_run) {
            return self;
        }
        let both = solo.bytes_a_cpu().zip(co_run.bytes_a_cpu()).filter(|(solo, _)| *solo > 0.0);
        self.diffs[Resource::MemoryBandwidth as usize] = both.map(|(solo, co_run)| co_run / solo - 1.0);
        self
    }

    /// The difference for one resource; None where it was not measured.
    #[must_use]
    pub fn of(&self, resource: Resource) -> Option<f64> {
        self.diffs[resource as usize]
    }

    /// The most contentious resource, if one lies below the solo run by more than its threshold.
    #[must_use]
    pub fn dominant(&self, threshold: impl Fn(Resource) -> f64) -> Option<Resource> {
        let contended = |resource: &Resource| self.of(*resource).is_some_and(|diff| diff < -threshold(*resource));
        let least =
            |a: &Resource, b: &Resource| self.of(*a).unwrap_or_default().total_cmp(&self.of(*b).unwrap_or_default());
        Resource::ALL.into_iter().filter(contended).min_by(least)
    }
}

/// Are there too few bytes, alone and beside others, for a difference of them to say anything?
#[must_use]
pub fn is_nothing(solo: &Usage, co_run: &Usage) -> bool {
    solo.moves_few_bytes() && co_run.moves_few_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::profile::tests::usage;
    use super::*;

    #[test]
    fn the_most_negative_difference_is_dominant() {
        let solo = usage(0.9, 10e9, 2.0);
        let contention = Contention::between(&solo, &usage(0.7, 7e9, 2.0));
        assert_eq!(contention.dominant(|_| 0.05), Some(Resource::MemoryBandwidth));
        let contention = Contention::between(&solo, &usage(0.5, 9e9, 2.0));
        assert_eq!(contention.dominant(|_| 0.05), Some(Resource::Llc));
        assert_eq!(Contention::between(&solo, &usage(0.87, 9.8e9, 1.95)).dominant(|_| 0.05), None);
    }

    #[test]
    fn what_was_not_measured_is_no_contention() {
        let solo = Usage { llc_hit_ratio: None, ..usage(0.9, 0.0, 2.0) };
        let contention = Contention::between(&solo, &usage(0.1, 5e9, 2.0));
        assert_eq!((contention.of(Resource::Llc), contention.of(Resource::MemoryBandwidth)), (None, None));
        assert_eq!(contention.dominant(|_| 0.05), None);
    }

    #[test]
    fn who_moves_few_bytes_is_no_victim_of_bandwidth() {
        let solo = usage(0.9, 0.142e9, 3.8);
        let few = usage(0.9, 0.130e9, 3.8);
        let contention = Contention::between(&solo, &few);
        assert_eq!((contention.of(Resource::MemoryBandwidth), contention.dominant(|_| 0.05)), (Some(0.0), None));
        assert_eq!(contention.per_cpu_time(&solo, &few), contention);
        let more = Contention::between(&solo, &usage(0.9, 3e9, 3.8));
        assert!(more.of(Resource::MemoryBandwidth).unwrap() > 1.0, "another phase");
        let cold = Contention::between(&solo, &usage(0.7, 0.130e9, 3.8));
        assert_eq!(cold.dominant(|_| 0.05), Some(Resource::Llc), "of the cache it may be one");
        assert_eq!(Contention::between(&usage(0.9, 10e9, 3.8), &usage(0.9, 9e9, 3.8)).dominant(|_| 0.11), None);
    }
}
