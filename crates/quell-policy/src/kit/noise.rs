//! The noise floor: differences of co-run and solo run that say nothing.
//!
//! Not in the dissertation, which has fixed thresholds. A service that hardly moves bytes is no victim of memory bandwidth,
//! whatever its few bytes do; and a difference within the spread of what is compared is none.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::contention::Resource;
use super::profile::{Solo, Usage};

/// No threshold lies below this number of standard deviations of a solo run's looks (ours: 2.3 % of a normal distribution lie
/// further below its mean).
const DEVIATIONS: f64 = 2.0;
/// Fewer looks show no spread (ours).
const FEWEST: u32 = 3;

/// Values of which mean and spread are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Moments {
    sum: f64,
    squares: f64,
    count: u32,
}

impl Moments {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            (self.sum, self.squares, self.count) = (self.sum + value, self.squares + value * value, self.count + 1);
        }
    }

    /// Mean and standard deviation; None: of too few values.
    fn both(&self) -> Option<(f64, f64)> {
        let count = f64::from(self.count);
        let mean = self.sum / count.max(1.0);
        let variance = (self.squares - self.sum * mean).max(0.0) / (count - 1.0).max(1.0);
        (self.count >= FEWEST).then(|| (mean, libm::sqrt(variance)))
    }
}

/// The looks of a solo run, as far as their spread is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Looks {
    llc_hit_ratio: Moments,
    memory_bandwidth: Moments,
    bytes_a_cpu: Moments,
}

impl Looks {
    /// Takes one in.
    pub fn add(&mut self, usage: &Usage) {
        self.llc_hit_ratio.add(usage.llc_hit_ratio);
        self.memory_bandwidth.add(usage.memory_bandwidth);
        self.bytes_a_cpu.add(usage.bytes_a_cpu());
    }

    /// Their spread; zero where there were too few.
    #[must_use]
    pub fn spread(&self) -> Spread {
        let relative = |of: &Moments| of.both().filter(|(mean, _)| *mean > 0.0).map_or(0.0, |(mean, sd)| sd / mean);
        Spread {
            llc_hit_ratio: self.llc_hit_ratio.both().map_or(0.0, |(_, sd)| sd),
            memory_bandwidth: relative(&self.memory_bandwidth),
            bytes_a_cpu: relative(&self.bytes_a_cpu),
        }
    }
}

/// Standard deviations of a solo run's looks, in the unit of the differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Of the hit ratio.
    pub llc_hit_ratio: f64,
    /// Of the bytes a second, as part of their mean.
    pub memory_bandwidth: f64,
    /// Of the bytes per CPU time, as part of their mean.
    pub bytes_a_cpu: f64,
}

impl Solo {
    /// The least difference of this resource that says something; bandwidth as it is, or per CPU time.
    #[must_use]
    pub fn noise(&self, resource: Resource, per_cpu_time: bool) -> f64 {
        let deviation = match resource {
            Resource::Llc => self.spread.llc_hit_ratio,
            Resource::MemoryBandwidth if per_cpu_time => self.spread.bytes_a_cpu,
            Resource::MemoryBandwidth => self.spread.memory_bandwidth,
            // A number of threads, which is exact.
            Resource::Cpu => 0.0,
        };
        DEVIATIONS * deviation
    }

    /// Why a workload is no victim that a fixed threshold would take for one, where its differences are these; None: it is not
    /// near.
    #[must_use]
    pub fn excuse(&self, co_run: &Usage, diffs: &[(Resource, Option<f64>)], threshold: f64) -> Option<Excuse> {
        let fell = |diff: f64| diff < -threshold;
        if let Some((solo, now)) = self.usage.memory_bandwidth.zip(co_run.memory_bandwidth)
            && self.usage.moves_few_bytes()
            && fell(now / solo - 1.0)
        {
            return Some(Excuse::FewBytes(solo));
        }
        diffs.iter().find_map(|&(resource, diff)| {
            let (diff, noise) = (diff.filter(|diff| fell(*diff))?, self.noise(resource, false));
            (-diff <= noise).then_some(Excuse::Spread(resource, diff, noise / DEVIATIONS))
        })
    }
}

/// Why what a fixed threshold would take for contention is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Excuse {
    /// It moves this many bytes a second alone.
    FewBytes(f64),
    /// This resource's difference, and the spread of its looks alone.
    Spread(Resource, f64, f64),
}

impl fmt::Display for Excuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excuse::FewBytes(bytes) => {
                let megabytes = bytes / 1e6;
                write!(f, "its {megabytes:.0} MB/s are below the noise floor: no victim of memory bandwidth")
            }
            Excuse::Spread(resource, diff, spread) => write!(
                f,
                "{} differs by {:+.1} % from the solo run, below the noise floor: its looks alone spread by {:.1} %",
                resource.name(),
                diff * 100.0,
                spread * 100.0
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use quell_model::Nanos;

    use super::super::profile::Alone;
    use super::super::profile::tests::usage;
    use super::*;

    fn solo(looks: &[Usage]) -> Solo {
        let mut alone = Alone::default();
        looks.iter().for_each(|look| alone.add(look));
        alone.solo(Nanos::ZERO).unwrap()
    }

    #[test]
    fn the_first_look_of_a_solo_run_counts_only_alone() {
        let cold = usage(0.5, 9e9, 1.0);
        let warm = [usage(0.8, 4e9, 1.0), usage(0.8, 4.2e9, 1.0), usage(0.8, 3.8e9, 1.0)];
        let of = solo(&[cold, warm[0], warm[1], warm[2]]);
        assert!((of.usage.memory_bandwidth.unwrap() - 4e9).abs() < 1.0, "{of:?}");
        assert!((of.noise(Resource::MemoryBandwidth, false) - 0.1).abs() < 1e-9, "2 × 5 %: {of:?}");
        assert_eq!(of.noise(Resource::Llc, false), 0.0);
        assert_eq!(solo(&[cold]).usage, cold);
        let nothing = Usage { threads: Some(1), ..Usage::default() };
        assert_eq!(solo(&[nothing, cold, warm[0]]).usage, warm[0], "the first that has anything");
        assert!(Alone::default().solo(Nanos::ZERO).is_none());
    }

    #[test]
    fn few_bytes_and_the_spread_of_the_looks_are_said() {
        let few = solo(&[usage(0.9, 0.14e9, 4.0); 4]);
        let of = |bandwidth| [(Resource::Llc, Some(0.0)), (Resource::MemoryBandwidth, Some(bandwidth))];
        let said = |excuse: Option<Excuse>| excuse.map(|excuse| excuse.to_string()).unwrap_or_default();
        let text = said(few.excuse(&usage(0.9, 0.12e9, 4.0), &of(0.0), 0.05));
        assert!(text.contains("140 MB/s are below the noise floor"), "{text}");
        assert_eq!(few.excuse(&usage(0.9, 0.138e9, 4.0), &of(0.0), 0.05), None, "within the threshold");
        let noisy = solo(&[4e9, 3e9, 4e9, 5e9].map(|bytes| usage(0.9, bytes, 1.0)));
        let text = said(noisy.excuse(&usage(0.9, 3e9, 1.0), &of(-0.25), 0.05));
        assert!(text.contains("differs by -25.0 %") && text.contains("below the noise floor"), "{text}");
        assert_eq!(noisy.excuse(&usage(0.9, 1e9, 1.0), &of(-0.75), 0.05), None, "a victim");
    }
}
