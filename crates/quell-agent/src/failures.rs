//! Looks at the machine that fail: the view is stale, and is tried again for a while.

use quell_model::Nanos;

use crate::wire::Stale;

/// This many in a row end the worker …
const MOST: u32 = 10;
/// … and so does a row that lasts this long.
const LONGEST: Nanos = Nanos::from_secs(5);
/// The first pause before the next try; they double …
const FIRST_PAUSE: Nanos = Nanos::from_millis(20);
/// … up to this one.
const LONGEST_PAUSE: Nanos = Nanos::from_millis(640);
/// A warning stands for this long after the last failure.
const WARNED_FOR: Nanos = Nanos::from_secs(60);

/// Failed looks so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    in_a_row: u32,
    /// Since the warning came.
    count: u64,
    /// Start of the row.
    since: Nanos,
    last: Nanos,
    why: String,
    warns: bool,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The view stays as it is; the next try is due after this pause.
    Again(Nanos),
    /// It will not become better: the worker ends as one that died.
    GiveUp,
}

impl Failures {
    /// A look failed.
    pub fn another(&mut self, why: &str, now: Nanos) -> Next {
        if self.in_a_row == 0 {
            self.since = now;
        }
        if !self.warns {
            self.count = 0;
        }
        (self.in_a_row, self.count, self.last, self.warns) = (self.in_a_row + 1, self.count + 1, now, true);
        if self.why != why {
            why.clone_into(&mut self.why);
        }
        if self.in_a_row >= MOST || now.since(self.since) >= LONGEST {
            return Next::GiveUp;
        }
        Next::Again(Nanos(FIRST_PAUSE.0 << (self.in_a_row - 1)).min(LONGEST_PAUSE))
    }

    /// Is the last one the first since the last warning was over? Those that follow are counted only.
    #[must_use]
    pub fn is_news(&self) -> bool {
        self.count == 1
    }

    /// A look was made. True if the warning is over, or a row is.
    pub fn none(&mut self, now: Nanos) -> bool {
        let row = std::mem::take(&mut self.in_a_row) > 0;
        let over = self.warns && now.since(self.last) > WARNED_FOR;
        self.warns &= !over;
        row || over
    }

    /// A row that is under way: what is shown is that of the last look.
    #[must_use]
    pub fn stale(&self) -> Option<Stale> {
        (self.in_a_row > 0).then(|| Stale { since_ns: self.since.0, why: self.why.clone() })
    }

    /// The warning for `status`; `None`: no look failed lately.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let looks = if self.count == 1 { "1 look at the machine" } else { "looks at the machine" };
        let count = if self.count == 1 { String::new() } else { format!("{} ", self.count) };
        let standing = if self.in_a_row > 0 { "; the values are from the last successful read" } else { "" };
        self.warns.then(|| format!("{count}{looks} failed in the last minute ({}){standing}", self.why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_row_of_failures_ends_the_worker_in_bounded_time() {
        let (mut failures, mut now, mut tries) = (Failures::default(), Nanos(7), 0);
        let begun = now;
        while let Next::Again(pause) = failures.another("no", now) {
            now += pause;
            tries += 1;
            assert!(tries < 100);
        }
        assert!(now - begun <= LONGEST && tries == 9, "{tries} in {}", now - begun);
        let mut slow = Failures::default();
        assert!(matches!(slow.another("no", begun), Next::Again(_)));
        assert_eq!(slow.another("no", begun + LONGEST), Next::GiveUp, "each try itself may take long");
    }

    #[test]
    fn one_that_passes_is_a_warning_for_a_minute() {
        let mut failures = Failures::default();
        assert_eq!(failures.warning(), None);
        failures.another("cannot read x", Nanos(MS));
        let text = failures.warning().unwrap();
        assert!(text.starts_with("1 look at the machine failed") && text.contains("cannot read x"), "{text}");
        assert!(text.contains("the values"), "{text}");
        assert_eq!(failures.stale().map(|stale| stale.since_ns), Some(MS));
        assert!(failures.none(Nanos(2 * MS)) && !failures.none(Nanos(3 * MS)), "reported once");
        assert!(!failures.warning().unwrap().contains("the values"));
        failures.another("cannot read x", Nanos(4 * MS));
        assert!(!failures.is_news());
        assert!(failures.warning().unwrap().starts_with("2 looks at the machine"), "{:?}", failures.warning());
        assert!(failures.none(Nanos(5 * MS)));
        assert!(failures.none(Nanos(5 * MS) + WARNED_FOR));
        assert_eq!(failures.warning(), None);
    }
}
