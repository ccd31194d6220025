//! Busy intervals of the tasks on a whole CPU, and the largest amount of them in a window (vas-rtns21 eq. 2–4).
//!
//! S(t), the work that a whole CPU has done by t, is the same under every work-conserving scheduler (Lemma 4.3): it rises
//! within *busy intervals* and is flat between them. From max A + H on the intervals repeat every hyperperiod H. (Lemma
//! 4.4 says from max A on; {(3, 2, 4), (0, 3, 8)} is a counterexample.) No window before that holds more than the same
//! window hyperperiods later, so that the repeating intervals decide. They are those of the same tasks without a
//! beginning: release i at A + iT for every whole i, wrapped around the hyperperiod.

use quell_model::Nanos;

use super::interface::Interface;
use super::task::{Releases, TaskSet};
use quell_model::demand::Task;

/// The busy intervals of one hyperperiod of the steady state; after it they begin anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    hyperperiod: u64,
    /// Start of each, in order. The last one may go on beyond the hyperperiod.
    starts: Vec<u64>,
    /// The work of the intervals before each, and last of all of them.
    before: Vec<u64>,
    /// Windows that begin with one of the first `windows` intervals hold the most. Sporadic tasks do worst when all
    /// release at once and then as densely as they may: one window.
    windows: usize,
}

impl Busy {
    /// The busy intervals of these tasks: one merge over their releases.
    #[must_use]
    pub fn of(set: &TaskSet) -> Busy {
        let sporadic = set.releases() == Releases::Sporadic;
        let hyperperiod = set.hyperperiod().0;
        let (mut starts, mut lengths): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut end = None;
        merge(set, |at, work| match &mut end {
            Some(end) if at <= *end => {
                *end += work;
                *lengths.last_mut().expect("an interval goes on") += work;
            }
            _ => {
                starts.push(at);
                lengths.push(work);
                end = Some(at + work);
            }
        });
        // Work left of the last interval at the hyperperiod's end comes before the next one's first intervals.
        let mut end = end.unwrap_or_default();
        let mut absorbed = 0;
        while absorbed + 1 < starts.len() && starts[absorbed] + hyperperiod <= end {
            end += lengths[absorbed];
            *lengths.last_mut().expect("there are several") += lengths[absorbed];
            absorbed += 1;
        }
        starts.drain(..absorbed);
        lengths.drain(..absorbed);
        // In place: each length becomes the work before it.
        let mut sum = 0;
        for length in &mut lengths {
            (*length, sum) = (sum, sum + *length);
        }
        lengths.push(sum);
        let windows = if sporadic { 1 } else { starts.len() };
        Busy { hyperperiod, starts, before: lengths, windows }
    }

    /// B(P) = max over t of S(t + P) − S(t): the budget that is never exhausted in a period, wherever the periods begin.
    ///
    /// A window that holds the most can be moved until it begins with a busy interval: one pass over them.
    #[must_use]
    pub fn budget(&self, period: Nanos) -> Nanos {
        let whole = period.0 / self.hyperperiod * self.work();
        let rest = period.0 % self.hyperperiod;
        if rest == 0 {
            return Nanos(whole);
        }
        let (mut most, mut end_of_last, mut next) = (0, 0, Cursor::first(self));
        for (start, done) in self.starts[..self.windows].iter().zip(&self.before) {
            let end = start + rest;
            while next.start() < end {
                end_of_last = next.end();
                next.step();
            }
            most = most.max(next.work_before() - done - end_of_last.saturating_sub(end));
        }
        Nanos(whole + most)
    }

    /// The longest period for which this budget, less than a hyperperiod's work, is enough: one pass.
    #[must_use]
    pub fn reach(&self, budget: Nanos) -> Nanos {
        let budget = budget.0.min(self.work() - 1);
        let (mut least, mut last) = (u64::MAX, Cursor::first(self));
        for (start, done) in self.starts[..self.windows].iter().zip(&self.before) {
            while last.work_after() - done <= budget {
                last.step();
            }
            least = least.min(last.start() + budget + done - last.work_before() - start);
        }
        Nanos(least)
    }

    /// The longest busy interval: the time during which nothing else runs while the tasks do what they say, for any
    /// period.
    #[must_use]
    pub fn longest(&self) -> Nanos {
        Nanos((0..self.windows).map(|at| self.length(at)).max().unwrap_or(0))
    }

    /// The least interface: budget H × U, period H. The bandwidth of no other one is smaller (Theorem 4.2).
    #[must_use]
    pub fn least(&self) -> Interface {
        Interface { budget: Nanos(self.work()), period: Nanos(self.hyperperiod) }
    }

    /// The shortest period with the bandwidth of [`Busy::least`]: that after which the intervals repeat. (All windows of
    /// such a period hold H × U × P / H on average, so that none may hold less than another.)
    #[must_use]
    pub fn shortest(&self) -> Interface {
        let count = self.starts.len();
        let repeats = |parts: u64| {
            let (step, shift) = (count / parts as usize, self.hyperperiod / parts);
            (0..count)
                .all(|at| self.start(at + step) - self.start(at) == shift && self.length(at + step) == self.length(at))
        };
        let fits = |parts: &u64| {
            [count as u64, self.hyperperiod, self.work()].iter().all(|whole| whole.is_multiple_of(*parts))
                && repeats(*parts)
        };
        let parts = (1..=count as u64).rev().find(fits).unwrap_or(1);
        Interface { budget: Nanos(self.work() / parts), period: Nanos(self.hyperperiod / parts) }
    }

    /// The busy intervals of a hyperperiod.
    #[must_use]
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// Intervals with which a window that holds the most may begin.
    pub(super) fn windows(&self) -> usize {
        self.windows
    }

    pub(super) fn work(&self) -> u64 {
        self.before[self.starts.len()]
    }

    /// Start of the interval of this number, counted on over hyperperiods.
    pub(super) fn start(&self, at: usize) -> u64 {
        let (round, at) = self.round(at);
        self.starts[at] + round * self.hyperperiod
    }

    /// The work of all intervals before the one of this number.
    pub(super) fn work_before(&self, at: usize) -> u64 {
        let (round, at) = self.round(at);
        self.before[at] + round * self.work()
    }

    fn length(&self, at: usize) -> u64 {
        let (_, at) = self.round(at);
        self.before[at + 1] - self.before[at]
    }

    /// No window is longer than a hyperperiod, so that numbers stay below three rounds.
    fn round(&self, at: usize) -> (u64, usize) {
        let count = self.starts.len();
        match at {
            at if at < count => (0, at),
            at if at < 2 * count => (1, at - count),
            at => (2, at - 2 * count),
        }
    }
}

/// Goes over the intervals, hyperperiod after hyperperiod.
struct Cursor<'a> {
    busy: &'a Busy,
    at: usize,
    /// Whole hyperperiods before it, and their work.
    passed: u64,
    done: u64,
}

impl Cursor<'_> {
    fn first(busy: &Busy) -> Cursor<'_> {
        Cursor { busy, at: 0, passed: 0, done: 0 }
    }

    fn step(&mut self) {
        self.at += 1;
        if self.at == self.busy.starts.len() {
            self.at = 0;
            self.passed += self.busy.hyperperiod;
            self.done += self.busy.work();
        }
    }

    fn start(&self) -> u64 {
        self.passed + self.busy.starts[self.at]
    }

    fn work_before(&self) -> u64 {
        self.done + self.busy.before[self.at]
    }

    fn work_after(&self) -> u64 {
        self.done + self.busy.before[self.at + 1]
    }

    fn end(&self) -> u64 {
        self.start() + self.work_after() - self.work_before()
    }
}

/// Releases that are sorted at once.
const SORTED: u64 = 4096;

/// Every release of a hyperperiod with its work, in the order of time: a span after the other.
fn merge(set: &TaskSet, mut release: impl FnMut(u64, u64)) {
    let hyperperiod = set.hyperperiod().0;
    let first = |task: &Task| if set.releases() == Releases::Sporadic { 0 } else { task.offset.0 };
    let mut next: Vec<u64> = set.tasks().iter().map(first).collect();
    let span = (hyperperiod / set.release_count().div_ceil(SORTED)).max(1);
    let (mut some, mut end) = (Vec::new(), 0);
    while end < hyperperiod {
        end = hyperperiod.min(end + span);
        for (task, next) in set.tasks().iter().zip(&mut next) {
            while *next < end {
                some.push((*next, task.work.0));
                *next += task.period.0;
            }
        }
        // It finds the tasks' own order and merges.
        some.sort();
        some.drain(..).for_each(|(at, work)| release(at, work));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(tasks: &[(u64, u64, u64)]) -> Busy {
        let task = |&(offset, work, period): &(u64, u64, u64)| Task {
            offset: Nanos(offset),
            work: Nanos(work),
            period: Nanos(period),
        };
        Busy::of(&TaskSet::new(tasks.iter().map(task).collect(), Releases::Periodic).unwrap())
    }

    #[test]
    fn the_paper_s_lemma_holds_only_a_hyperperiod_later() {
        let busy = busy(&[(3, 2, 4), (0, 3, 8)]);
        assert_eq!(busy.budget(Nanos(8)), Nanos(7));
        // Releases at 3 (2), 7 (2), 8 (3): busy from 3 to 5 and, again and again, from 7 to 12 and from 12 + …
        assert_eq!(busy.count(), 1, "{busy:?}");
        assert_eq!(busy.longest(), Nanos(7));
    }

    #[test]
    fn intervals_that_repeat_give_a_shorter_period() {
        let busy = busy(&[(0, 1, 4), (2, 1, 4)]);
        assert_eq!(busy.least(), Interface { budget: Nanos(2), period: Nanos(4) });
        assert_eq!(busy.shortest(), Interface { budget: Nanos(1), period: Nanos(2) });
    }

    #[test]
    fn a_budget_reaches_as_far_as_it_is_enough() {
        let busy = busy(&[(0, 1, 4), (1, 2, 6)]);
        for budget in 1..busy.work() {
            let reach = busy.reach(Nanos(budget));
            assert!(busy.budget(reach).0 <= budget && busy.budget(reach + Nanos(1)).0 > budget, "{budget}: {reach:?}");
        }
    }
}
