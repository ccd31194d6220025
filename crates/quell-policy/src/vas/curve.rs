//! B(P) for all P up to the hyperperiod: a stair whose steps rise with slope one.
//!
//! A window that begins with busy interval i and ends with busy interval j holds their work L, and the time between them
//! that is idle: B(P) is the most of min(L, P − idle) over all pairs. Those that another one beats in both are dropped.

use quell_model::Nanos;

use super::busy::Busy;
use super::interface::Interface;

/// Up to this many busy intervals every pair is examined.
const EXACT: usize = 10_000;
/// Beyond, the curve is sampled with this many steps over intervals in total.
const SAMPLED_STEPS: usize = 100_000_000;

/// The budget is the same for all these periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flat {
    /// The budget.
    pub budget: Nanos,
    /// The shortest of the periods (of a sampled curve: one of them).
    pub from: Nanos,
    /// The longest of them. W = B / P has its local minima here.
    pub to: Nanos,
}

impl Flat {
    /// Its end.
    #[must_use]
    pub fn end(&self) -> Interface {
        Interface { budget: self.budget, period: self.to }
    }
}

/// The flat parts of B(P), from the longest busy interval to the hyperperiod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// In order of period and budget.
    pub flats: Vec<Flat>,
    /// Are these all?
    pub is_exact: bool,
}

impl Curve {
    /// The curve: all of it up to 10^4 busy intervals, sampled above.
    #[must_use]
    pub fn of(busy: &Busy) -> Curve {
        if busy.count() <= EXACT {
            Curve { flats: flats(&front(busy), busy.least().period.0), is_exact: true }
        } else {
            Curve { flats: sampled(busy), is_exact: false }
        }
    }

    /// B(P) of an exact curve, for a period up to the hyperperiod.
    #[must_use]
    pub fn budget(&self, period: Nanos) -> Nanos {
        let next = self.flats.partition_point(|flat| flat.from <= period);
        let flat = next.checked_sub(1).map_or(Nanos::ZERO, |at| self.flats[at].budget);
        let rising = self.flats.get(next).map_or(Nanos::ZERO, |flat| (period + flat.budget) - flat.from);
        flat.max(rising)
    }
}

/// Work and idle time of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    idle: u64,
    work: u64,
}

/// The windows that none beats: idle time and work both rise strictly.
fn front(busy: &Busy) -> Vec<Window> {
    let count = busy.count();
    // Numbers of two rounds: the idle time before an interval, and the work up to its end.
    let idle: Vec<u64> = (0..2 * count).map(|at| busy.start(at) - busy.work_before(at)).collect();
    let work: Vec<u64> = (0..2 * count).map(|at| busy.work_before(at + 1)).collect();
    let mut seen = Seen::new(idle[count] - idle[0], count);
    for first in 0..busy.windows() {
        let (no_idle, no_work) = (idle[first], busy.work_before(first));
        let ends = idle[first..first + count].iter().zip(&work[first..first + count]);
        ends.for_each(|(idle, work)| seen.add(Window { idle: idle - no_idle, work: work - no_work }));
        seen.tidy_if_many();
    }
    seen.tidy();
    seen.windows
}

/// Windows, with an index that quickly shows that another one is beaten.
struct Seen {
    windows: Vec<Window>,
    /// Number of those that are tidied up.
    tidied: usize,
    /// Idle times are put into classes by their upper bits.
    shift: u32,
    /// By class: the most work of all lower classes, and the window with the most work of this one.
    classes: Vec<(u64, Window)>,
}

impl Seen {
    fn new(most_idle: u64, count: usize) -> Seen {
        let bits = u64::BITS - most_idle.leading_zeros();
        let shift = bits.saturating_sub((4 * count as u64).next_power_of_two().ilog2());
        let classes = vec![(0, Window { idle: u64::MAX, work: 0 }); (most_idle >> shift) as usize + 1];
        Seen { windows: Vec::new(), tidied: 0, shift, classes }
    }

    #[inline]
    fn add(&mut self, window: Window) {
        let (below, best) = &self.classes[(window.idle >> self.shift) as usize];
        let is_beaten = window.work <= *below || (window.idle >= best.idle && window.work <= best.work);
        if !is_beaten {
            self.windows.push(window);
        }
    }

    fn tidy_if_many(&mut self) {
        let new = self.windows.len() - self.tidied;
        if new > 4096.max(self.tidied / 2) || self.tidied == 0 {
            self.tidy();
        }
    }

    fn tidy(&mut self) {
        self.windows.sort_unstable_by(|a, b| a.idle.cmp(&b.idle).then(b.work.cmp(&a.work)));
        let mut most = 0;
        self.windows.retain(|window| {
            let stays = window.work > most;
            most = most.max(window.work);
            stays
        });
        self.tidied = self.windows.len();
        let (mut next, mut below) = (0, 0);
        for (class, entry) in self.classes.iter_mut().enumerate() {
            entry.0 = below;
            while let Some(window) = self.windows.get(next).filter(|window| window.idle >> self.shift == class as u64) {
                (entry.1, below) = (*window, window.work);
                next += 1;
            }
        }
    }
}

fn flats(front: &[Window], hyperperiod: u64) -> Vec<Flat> {
    let next_idle = front.iter().skip(1).map(|window| Some(window.idle)).chain([None]);
    let flat = |(window, next): (&Window, Option<u64>)| Flat {
        budget: Nanos(window.work),
        from: Nanos(window.work + window.idle),
        to: Nanos(next.map_or(hyperperiod, |idle| window.work + idle)),
    };
    front.iter().zip(next_idle).map(flat).collect()
}

/// The longest busy interval's flat part, the hyperperiod's, and those at equal distances between them.
fn sampled(busy: &Busy) -> Vec<Flat> {
    let (longest, least) = (busy.longest(), busy.least());
    let samples = (SAMPLED_STEPS / (2 * busy.windows())).clamp(16, 1_000) as u64;
    let between = least.period.0 - longest.0;
    let periods =
        (0..samples).map(|at| longest + Nanos((u128::from(between) * u128::from(at) / u128::from(samples)) as u64));
    let flat = |from: Nanos| {
        let budget = busy.budget(from);
        Flat { budget, from, to: if budget < least.budget { busy.reach(budget) } else { least.period } }
    };
    let mut flats: Vec<Flat> = periods.chain([least.period]).map(flat).collect();
    flats.dedup_by_key(|flat| flat.budget);
    flats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vas::{Releases, Task, TaskSet};
    use proptest::prelude::*;

    fn busy(tasks: &[(u64, u64, u64)], releases: Releases) -> Option<Busy> {
        let task = |&(offset, work, period): &(u64, u64, u64)| Task {
            offset: Nanos(offset % period),
            work: Nanos(work),
            period: Nanos(period),
        };
        Some(Busy::of(&TaskSet::new(tasks.iter().map(task).collect(), releases).ok()?))
    }

    fn sets() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
        let period = prop::sample::select(vec![4u64, 6, 8, 10, 12, 15, 20, 30]);
        prop::collection::vec((0u64..30, 1u64..5, period), 1..5)
    }

    proptest! {
        #[test]
        fn the_curve_is_b_of_p_at_every_period(set in sets(), sporadic: bool) {
            let releases = if sporadic { Releases::Sporadic } else { Releases::Periodic };
            let Some(busy) = busy(&set, releases) else { return Ok(()) };
            let curve = Curve::of(&busy);
            for period in 1..=busy.least().period.0 {
                prop_assert_eq!(curve.budget(Nanos(period)), busy.budget(Nanos(period)), "P = {} of {:?}", period, curve);
            }
            for flat in &curve.flats {
                prop_assert_eq!(busy.budget(flat.to), flat.budget);
                prop_assert!(busy.budget(flat.to + Nanos(1)) > flat.budget);
            }
        }

        #[test]
        fn what_is_sampled_is_on_the_curve(set in sets()) {
            let Some(busy) = busy(&set, Releases::Periodic) else { return Ok(()) };
            let exact = Curve::of(&busy);
            for flat in sampled(&busy) {
                let same = exact.flats.iter().find(|other| other.budget == flat.budget);
                prop_assert!(flat.to == busy.reach(flat.budget) || flat.to == busy.least().period);
                prop_assert!(same.is_none_or(|same| same.to == flat.to && same.from <= flat.from), "{:?} {:?}", flat, same);
            }
        }
    }
}
