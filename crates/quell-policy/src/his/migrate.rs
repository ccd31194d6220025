//! Thread migration between two sockets (snu2020 §3.4.2): the groups exchange their *backgrounds*.
//!
//! The authors' code exchanges them when the estimated gain, in instruction rates over those of the solo runs summed over
//! both foregrounds, is above 0.1 three times in a row, every 2 s at most; it estimates from solo data of backgrounds that
//! were taken before. Ours estimates from what is seen (assumed): a foreground's loss is in proportion to the memory
//! bandwidth of its background.

use quell_model::view::at;
use quell_model::{Nanos, View};
use serde::{Deserialize, Serialize};

use super::HisConfig;
use super::group::Group;

/// Looks in a row at which the gain must be seen.
const STRIKES: u32 = 3;

/// Looks so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Migration {
    strikes: u32,
    last_look: Nanos,
    last: Option<Nanos>,
}

impl Migration {
    /// One look, if it is time; true: exchange the backgrounds now.
    pub fn look(&mut self, view: &View, groups: &[Group], config: &HisConfig) -> bool {
        let [one, other] = groups else { return false };
        if view.now < self.last_look + config.interval {
            return false;
        }
        self.last_look = view.now;
        let gain = gain(one.slowed().zip(background(view, one)), other.slowed().zip(background(view, other)));
        self.strikes = if gain.is_some_and(|gain| gain > config.migration_gain) { self.strikes + 1 } else { 0 };
        let paused = self.last.is_some_and(|last| view.now < last + config.migration_pause);
        if self.strikes < STRIKES || paused {
            return false;
        }
        (self.strikes, self.last) = (0, Some(view.now));
        true
    }
}

/// Bytes a second of a group's background.
fn background(view: &View, group: &Group) -> Option<f64> {
    let of = |id: &quell_model::WorkloadId| at(&view.workloads.memory_bandwidth, id.index()).usable();
    group.place().background.iter().map(|id| of(id).map(|rate| rate.0)).sum()
}

/// The estimated gain of an exchange: each group is its foreground's difference and its background's bandwidth.
fn gain(one: Option<(f64, f64)>, other: Option<(f64, f64)>) -> Option<f64> {
    let ((slowed, beside), (other_slowed, other_beside)) = one.zip(other)?;
    let then =
        |slowed: f64, now: f64, then: f64| if now > 0.0 { (slowed.min(0.0) * then / now).max(-1.0) } else { slowed };
    let after = then(slowed, beside, other_beside) + then(other_slowed, other_beside, beside);
    Some(after - (slowed.min(0.0) + other_slowed.min(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_suffers_more_gets_the_lighter_background() {
        let gain = |one, other| gain(Some(one), Some(other)).unwrap();
        assert!((gain((-0.5, 10e9), (-0.01, 1e9)) - 0.36).abs() < 1e-9, "0.5 less, and 0.1 more");
        assert!(gain((-0.05, 1e9), (-0.2, 10e9)) < 0.0, "it would suffer ten times as much");
        assert_eq!(gain((0.2, 10e9), (0.1, 1e9)), 0.0, "none suffers");
        assert_eq!(super::gain(None, Some((0.0, 1.0))), None);
    }
}
