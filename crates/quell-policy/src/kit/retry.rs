//! Time of the next try after a refusal.

use std::fmt::Display;

use quell_model::{Nanos, NoteKind, Plan, Wake};
use serde::{Deserialize, Serialize};

/// The first retry comes after this time.
pub const FIRST: Nanos = Nanos::from_secs(1);

/// Each further refusal doubles the time, up to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    longest: Nanos,
    /// Pause after the next refusal.
    wait: Nanos,
    at: Option<Nanos>,
    /// A hash of the reason that was noted last: one that repeats is noted once.
    #[serde(default)]
    noted: Option<u64>,
}

impl Retry {
    /// After 1, 2, 4 … seconds, and never after more than `longest`.
    #[must_use]
    pub const fn up_to(longest: Nanos) -> Retry {
        Retry { longest, wait: FIRST, at: None, noted: None }
    }

    /// The host refused it: notes the reason, if it is another one than the last, and when it is tried again.
    pub fn refused(&mut self, now: Nanos, why: &dyn Display, plan: &mut Plan) {
        let text = why.to_string();
        if self.noted.replace(hash(&text)) != Some(hash(&text)) {
            plan.note(NoteKind::Warning, None, format!("the host refused: {text}; trying again in {}", self.wait));
        }
        self.at = Some(now + self.wait);
        self.wait = (self.wait + self.wait).min(self.longest);
    }

    /// It was done in part, through no fault of it: the rest follows soon.
    pub fn soon(&mut self, now: Nanos) {
        self.at = Some(now + FIRST);
    }

    /// It worked.
    pub fn worked(&mut self) {
        *self = Retry::up_to(self.longest);
    }

    /// It is under way again.
    pub fn begun(&mut self) {
        self.at = None;
    }

    /// Is it time to try again?
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        self.at.is_some_and(|at| at <= now)
    }

    /// Is a retry still to be waited for?
    #[must_use]
    pub fn is_ahead(&self, now: Nanos) -> bool {
        self.at.is_some_and(|at| at > now)
    }

    /// Time of the next try.
    #[must_use]
    pub fn wake(&self) -> Wake {
        self.at.map_or(Wake::OnEvent, Wake::At)
    }
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_twice_as_long_after_each_refusal_up_to_the_longest() {
        let mut retry = Retry::up_to(Nanos::from_secs(3));
        let mut plan = Plan::default();
        let mut waited = |retry: &mut Retry| {
            retry.refused(Nanos::ZERO, &"EBUSY", &mut plan);
            let Wake::At(at) = retry.wake() else { panic!("a refusal is retried") };
            assert!(retry.is_ahead(Nanos(at.0 - 1)) && retry.is_due(at));
            at.0 / 1_000_000_000
        };
        assert_eq!([1, 2, 3, 3].map(|_| waited(&mut retry)), [1, 2, 3, 3]);
        retry.worked();
        assert_eq!((retry.wake(), waited(&mut retry)), (Wake::OnEvent, 1));
        let noted: Vec<_> = plan.notes.iter().map(|note| &*note.text).collect();
        assert_eq!(noted, ["the host refused: EBUSY; trying again in 1 s"; 2], "once, and again after it worked");
        retry.refused(Nanos::ZERO, &"EPERM", &mut plan);
        assert!(plan.notes[2].text.contains("EPERM; trying again in 2 s"), "{}", plan.notes[2].text);
    }
}
