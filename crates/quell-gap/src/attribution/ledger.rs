//! The account of one workload.

use quell_model::Nanos;

use super::recent::History;
use super::{Cause, Entry, Key, Recent, Series, Shares};

/// What was waited this long before the next burst is laid to nothing.
const SETTLED_WITHIN: Nanos = Nanos::from_secs(120);
/// A cause of less than this share of a burst takes no place for a name.
const LEAST_NAMED: f64 = 0.01;

/// Seconds that a workload waited, by cause. What its counter says is in [`Ledger::series`] or in [`Ledger::unsettled`].
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The counter's last reading.
    counter: Option<Nanos>,
    waited: Nanos,
    /// Waited since the last burst, and since when.
    pending: Nanos,
    pending_since: Option<Nanos>,
    /// Waited within the burst that is under way; none is.
    within: Option<Nanos>,
    latest: Option<Shares>,
    series: Series,
    history: History,
}

impl Ledger {
    /// Takes a reading of the counter: all that its threads ever waited. A lower one than before begins anew.
    pub fn count(&mut self, now: Nanos, counter: Nanos) {
        let more = counter - self.counter.unwrap_or(counter);
        self.counter = Some(counter);
        self.waited += more;
        self.history.add(now, self.waited);
        match &mut self.within {
            Some(within) => *within += more,
            None if more > Nanos::ZERO => {
                self.pending += more;
                self.pending_since.get_or_insert(now);
            }
            None => {}
        }
        if self.pending_since.is_some_and(|since| now.since(since) > SETTLED_WITHIN) {
            self.give_up();
        }
    }

    /// What is counted from now on is within a burst.
    pub fn begin_burst(&mut self) {
        self.pending += self.within.replace(Nanos::ZERO).unwrap_or_default();
    }

    /// The burst is over, with these shares; None: it found out nothing.
    pub fn end_burst(&mut self, found: Option<Shares>) {
        let within = self.within.take().unwrap_or_default();
        let Some(found) = found.filter(|found| !found.of.is_empty()) else {
            self.pending += within;
            self.latest = None;
            return self.give_up();
        };
        let pending = std::mem::take(&mut self.pending);
        self.pending_since = None;
        self.settle(within, &found, &found, true);
        match self.latest.take() {
            Some(before) => self.settle(pending, &before, &found, false),
            None => self.settle(pending, &Shares::default(), &found, false),
        }
        self.latest = Some(found);
    }

    /// What is not settled is laid to nothing.
    pub fn give_up(&mut self) {
        let all = std::mem::take(&mut self.pending);
        self.pending_since = None;
        if all == Nanos::ZERO {
            return;
        }
        self.series.add(&Key::of(Cause::Unknown), Entry { time: all, low: Nanos::ZERO, high: all });
    }

    /// As after [`Ledger::give_up`], and no burst says anything of what comes.
    pub fn forget_bursts(&mut self) {
        self.pending += self.within.take().unwrap_or_default();
        self.latest = None;
        self.give_up();
    }

    /// Lays a time to what both bursts agree on.
    fn settle(&mut self, all: Nanos, before: &Shares, after: &Shares, is_traced: bool) {
        let keys = before.of.keys().chain(after.of.keys().filter(|key| !before.of.contains_key(key)));
        if all == Nanos::ZERO {
            return;
        }
        let mut left = all;
        for key in keys.filter(|key| key.cause != Cause::Unknown) {
            let (one, other) = (before.get(key), after.get(key));
            let (least, most) = (one.share.min(other.share), one.share.max(other.share));
            let error = if is_traced { other.within } else { one.error.max(other.error) };
            let time = all.scaled(least).min(left);
            left = left - time;
            let entry = Entry {
                time,
                low: all.scaled((least - error).max(0.0)).min(time),
                high: all.scaled((most + error).min(1.0)).max(time),
            };
            let is_small = key.is_named() && most < LEAST_NAMED && self.series.get(key) == Entry::default();
            self.series.add(if is_small { &OTHER } else { key }, entry);
        }
        self.series.add(&Key::of(Cause::Unknown), Entry { time: left, low: Nanos::ZERO, high: left });
    }

    /// All that it waited since the first reading.
    #[must_use]
    pub fn waited(&self) -> Nanos {
        self.waited
    }

    /// What of it the next burst will lay to causes.
    #[must_use]
    pub fn unsettled(&self) -> Nanos {
        self.pending + self.within.unwrap_or_default()
    }

    /// The settled part, by cause.
    #[must_use]
    pub fn series(&self) -> &Series {
        &self.series
    }

    /// The settled part that others took.
    #[must_use]
    pub fn by_others(&self) -> Nanos {
        self.series
            .iter()
            .filter(|(key, _)| key.cause.is_others())
            .fold(Nanos::ZERO, |sum, (_, entry)| sum + entry.time)
    }

    /// The shares of the latest burst.
    #[must_use]
    pub fn latest(&self) -> Option<&Shares> {
        self.latest.as_ref()
    }

    /// The last seconds.
    #[must_use]
    pub fn recent(&self, now: Nanos) -> Recent {
        self.history.recent(now, self.latest.as_ref(), &self.series)
    }

    /// The threads that waited at a time, on average over the last second.
    #[must_use]
    pub fn rate(&self, now: Nanos) -> f64 {
        self.history.rate(now)
    }
}

/// What is too small for a name.
static OTHER: Key = Key { cause: Cause::Other, by: String::new() };
