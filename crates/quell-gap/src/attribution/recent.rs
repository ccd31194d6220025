//! The last seconds of a workload, for people.

use std::collections::{BTreeMap, VecDeque};

use quell_model::Nanos;

use super::{Cause, Key, Series, Share, Shares};

/// The time that is shown.
const SHOWN: Nanos = Nanos::from_secs(10);
/// A rate is taken over this.
const RATE_OVER: Nanos = Nanos::from_secs(1);
/// Readings closer together than this are one.
const APART: Nanos = Nanos::from_millis(200);
/// A burst says nothing of what is later than this.
const HOLDS_FOR: Nanos = Nanos::from_secs(60);
/// Nor of a wait that is this many times the burst's: something came.
const HOLDS_UP_TO: f64 = 1.5;
/// A window that was traced to this part is a traced one.
const MOSTLY: f64 = 0.8;

/// How its causes are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Traced.
    Traced,
    /// By the shares of a burst.
    Estimated,
    /// Not at all.
    Unknown,
}

/// One cause's part.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The cause.
    pub key: Key,
    /// Its time.
    pub time: Nanos,
    /// It is at least this …
    pub low: Nanos,
    /// … and at most this, in 19 of 20.
    pub high: Nanos,
}

/// The last seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Recent {
    /// Their length.
    pub window: Nanos,
    /// The time that its threads waited.
    pub waited: Nanos,
    /// How the causes are known.
    pub how: How,
    /// The causes, the largest first.
    pub parts: Vec<Part>,
}

/// The counter's course.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    readings: VecDeque<(Nanos, Nanos)>,
}

impl History {
    pub fn add(&mut self, now: Nanos, waited: Nanos) {
        let is_close = |before: Option<&(Nanos, Nanos)>| before.is_some_and(|(at, _)| now.since(*at) < APART);
        if self.readings.len() >= 2 && is_close(self.readings.get(self.readings.len() - 2)) {
            self.readings.pop_back();
        }
        self.readings.push_back((now, waited));
        while self.readings.get(1).is_some_and(|(at, _)| now.since(*at) >= SHOWN) {
            self.readings.pop_front();
        }
    }

    /// Length of the window of about this length, and the time that was waited in it.
    fn over(&self, length: Nanos, now: Nanos) -> (Nanos, Nanos) {
        let Some(&(last_at, last)) = self.readings.back() else { return Default::default() };
        let from = self.readings.iter().rev().find(|(at, _)| now.since(*at) >= length).or(self.readings.front());
        from.map_or_else(Default::default, |&(at, waited)| (last_at - at, last - waited))
    }

    pub fn rate(&self, now: Nanos) -> f64 {
        let (window, waited) = self.over(RATE_OVER, now);
        if window == Nanos::ZERO { 0.0 } else { waited.0 as f64 / window.0 as f64 }
    }

    pub fn recent(&self, now: Nanos, burst: Option<&Shares>, series: &Series) -> Recent {
        let (window, waited) = self.over(SHOWN, now);
        let held = burst.filter(|burst| now.since(burst.end) <= HOLDS_FOR && !burst.of.is_empty());
        let mut by = BTreeMap::<Key, (Nanos, Share)>::new();
        let (mut how, mut explained) = (How::Unknown, Nanos::ZERO);
        if let Some(burst) = held {
            let most = burst.waited.0 as f64 / burst.length().0.max(1) as f64 * HOLDS_UP_TO * window.0 as f64;
            explained = waited.min(Nanos(most as u64));
            let traced = burst.end.since(burst.begin.max(now - window));
            how = if traced.0 as f64 >= MOSTLY * window.0 as f64 { How::Traced } else { How::Estimated };
            for (key, share) in burst.of.iter().filter(|(key, _)| key.cause != Cause::Unknown) {
                let (time, all) = by.entry(series.place_of(key)).or_default();
                *time += explained.scaled(share.share);
                all.share += share.share;
                all.error += if how == How::Traced { share.within } else { share.error };
            }
        }
        let stated = by.values().fold(Nanos::ZERO, |sum, (time, _)| sum + *time);
        let part = |(key, (time, Share { share, error, .. })): (Key, (Nanos, Share))| {
            let low = explained.scaled((share - error).max(0.0)).min(time);
            Part { key, time, low, high: (explained.scaled((share + error).min(1.0)) + (waited - explained)).max(time) }
        };
        let mut parts: Vec<Part> = by.into_iter().filter(|(_, (time, _))| *time > Nanos::ZERO).map(part).collect();
        let left = waited - stated;
        if left.0 as f64 > 0.01 * waited.0 as f64 {
            parts.push(Part { key: Key::of(Cause::Unknown), time: left, low: Nanos::ZERO, high: left });
        }
        parts.sort_by(|one, other| other.time.cmp(&one.time).then_with(|| one.key.cmp(&other.key)));
        Recent { window, waited, how, parts }
    }
}
