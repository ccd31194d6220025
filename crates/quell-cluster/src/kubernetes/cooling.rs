//! A workload's pause after moves, kept in an annotation of its owner: it survives the controller.

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

/// The pause after the second unhelpful move in a row, and its bound.
const LONG: u64 = 3600;
const LONGEST: u64 = 6 * 3600;

/// Times in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cooling {
    /// No move before.
    pub until: u64,
    /// Moves in a row that did not help.
    pub unhelpful: u32,
}

impl Cooling {
    /// As an annotation says; None: it says nothing that can be read.
    #[must_use]
    pub fn parse(text: &str) -> Option<Cooling> {
        serde_json::from_str(text).ok()
    }

    /// As an annotation.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{{\"until\":{},\"unhelpful\":{}}}", self.until, self.unhelpful)
    }

    /// Seconds until the next move may be made. A time beyond the longest pause comes of a clock that was wrong, and counts as it.
    #[must_use]
    pub fn left(&self, now: u64) -> u64 {
        self.until.saturating_sub(now).min(LONGEST)
    }

    /// A move begins.
    #[must_use]
    pub fn begun(self, now: u64, pause: Nanos) -> Cooling {
        Cooling { until: now + pause.0 / 1_000_000_000, ..self }
    }

    /// A move was judged: each in a row that did not help doubles the pause, and from the second on it is an hour or more.
    #[must_use]
    pub fn judged(self, now: u64, pause: Nanos, helped: bool) -> Cooling {
        let unhelpful = if helped { 0 } else { self.unhelpful.saturating_add(1) };
        let pause = (pause.0 / 1_000_000_000).saturating_mul(1 << unhelpful.min(16));
        let pause = if unhelpful >= 2 { pause.max(LONG) } else { pause };
        Cooling { until: now + pause.min(LONGEST), unhelpful }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_and_from_the_second_on_is_an_hour() {
        let pause = Nanos::from_secs(600);
        let first = Cooling::default().begun(1000, pause);
        assert_eq!(first.left(1000), 600);
        let one = first.judged(2000, pause, false);
        assert_eq!(one.left(2000), 1200);
        let two = one.judged(2000, pause, false);
        assert_eq!(two.left(2000), 3600);
        assert_eq!(two.judged(2000, pause, false).left(2000), 4800);
        assert_eq!(two.judged(2000, pause, true), Cooling { until: 2600, unhelpful: 0 });
        assert_eq!(Cooling { until: u64::MAX, unhelpful: 40 }.left(0), LONGEST);
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let cooling = Cooling { until: 5, unhelpful: 2 };
        assert_eq!(Cooling::parse(&cooling.text()), Some(cooling));
        for bad in ["", "5", "{\"until\":-1,\"unhelpful\":0}", "{\"until\":1,\"unhelpful\":0,\"x\":1}"] {
            assert_eq!(Cooling::parse(bad), None, "{bad}");
        }
    }
}
