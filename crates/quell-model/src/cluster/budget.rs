//! The move budget: a rule that every driver obeys, so that a wild policy cannot start a storm of moves.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::HostId;
use crate::{Nanos, WorkloadId};

const HOUR: Nanos = Nanos::from_secs(3600);

/// Bounds on moves. The defaults are ours: one move at a time fills a link, and a workload that moves more often than a
/// few times an hour is driven, not helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Budget {
    /// Moves under way in the whole cluster.
    pub at_once: u32,
    /// Moves under way from or to one host.
    pub per_host: u32,
    /// Moves of one workload begun within an hour.
    pub per_hour: u32,
    /// Shortest time between the end of a workload's move and its next.
    pub cool_down: Nanos,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { at_once: 64, per_host: 2, per_hour: 4, cool_down: Nanos::from_secs(60) }
    }
}

/// The bound that a move would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spent {
    /// Too many in the cluster.
    AtOnce,
    /// Too many at this host.
    PerHost(HostId),
    /// Too many of this workload within an hour: next at this time.
    PerHour(Nanos),
    /// The workload moved a moment ago: next at this time.
    CoolDown(Nanos),
}

/// Moves of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Moved {
    /// The beginnings within the last hour.
    begun: VecDeque<Nanos>,
    /// End of the last one.
    ended: Option<Nanos>,
    /// Source and destination of the one under way.
    way: Option<(HostId, HostId)>,
}

/// The moves that count against a budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetBook {
    under_way: u32,
    per_host: BTreeMap<HostId, u32>,
    moved: BTreeMap<WorkloadId, Moved>,
}

impl BudgetBook {
    /// May a workload move between these hosts now?
    ///
    /// # Errors
    /// The bound that it would exceed.
    pub fn may(
        &self,
        budget: &Budget,
        now: Nanos,
        workload: WorkloadId,
        from: HostId,
        to: HostId,
    ) -> Result<(), Spent> {
        if self.under_way >= budget.at_once {
            return Err(Spent::AtOnce);
        }
        let full = |host: &HostId| self.per_host.get(host).copied().unwrap_or(0) >= budget.per_host;
        if let Some(host) = [from, to].into_iter().find(full) {
            return Err(Spent::PerHost(host));
        }
        let Some(moved) = self.moved.get(&workload) else {
            return if budget.per_hour == 0 { Err(Spent::PerHour(Nanos(u64::MAX))) } else { Ok(()) };
        };
        if let Some(next) = moved.ended.map(|ended| ended + budget.cool_down).filter(|next| *next > now) {
            return Err(Spent::CoolDown(next));
        }
        let mut recent = moved.begun.iter().filter(|begun| **begun + HOUR > now);
        match recent.clone().count() >= budget.per_hour as usize {
            true => Err(Spent::PerHour(recent.next().map_or(Nanos(u64::MAX), |first| *first + HOUR))),
            false => Ok(()),
        }
    }

    /// A move began.
    pub fn began(&mut self, now: Nanos, workload: WorkloadId, from: HostId, to: HostId) {
        self.under_way += 1;
        [from, to].iter().for_each(|host| *self.per_host.entry(*host).or_default() += 1);
        let moved = self.moved.entry(workload).or_default();
        moved.begun.retain(|begun| *begun + HOUR > now);
        moved.begun.push_back(now);
        moved.way = Some((from, to));
    }

    /// It ended, however. A workload that does not move changes nothing.
    pub fn ended(&mut self, now: Nanos, workload: WorkloadId) {
        let Some(moved) = self.moved.get_mut(&workload) else { return };
        let Some((from, to)) = moved.way.take() else { return };
        moved.ended = Some(now);
        self.under_way -= 1;
        for host in [from, to] {
            if let Some(number) = self.per_host.get_mut(&host) {
                *number -= 1;
            }
        }
    }

    /// The workload is gone, and its past with it.
    pub fn forget(&mut self, now: Nanos, workload: WorkloadId) {
        self.ended(now, workload);
        self.moved.remove(&workload);
    }

    /// Moves under way.
    #[must_use]
    pub fn under_way(&self) -> u32 {
        self.under_way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: HostId = HostId(0);
    const B: HostId = HostId(1);
    const C: HostId = HostId(2);
    const D: HostId = HostId(3);

    fn at(secs: u64) -> Nanos {
        Nanos::from_secs(secs)
    }

    #[test]
    fn each_bound_holds_by_itself() {
        let budget = Budget { at_once: 2, per_host: 1, per_hour: 2, cool_down: at(60) };
        let mut book = BudgetBook::default();
        let may = |book: &BudgetBook, now, id, from, to| book.may(&budget, at(now), WorkloadId(id), from, to);
        assert_eq!(may(&book, 0, 0, A, B), Ok(()));
        book.began(at(0), WorkloadId(0), A, B);
        assert_eq!(may(&book, 0, 1, B, C), Err(Spent::PerHost(B)));
        assert_eq!(may(&book, 0, 1, C, A), Err(Spent::PerHost(A)));
        book.began(at(0), WorkloadId(1), C, D);
        assert_eq!(may(&book, 0, 2, HostId(4), HostId(5)), Err(Spent::AtOnce));
        book.ended(at(10), WorkloadId(0));
        book.ended(at(10), WorkloadId(0));
        assert_eq!(book.under_way(), 1);
        assert_eq!(may(&book, 69, 0, B, A), Err(Spent::CoolDown(at(70))));
        book.began(at(70), WorkloadId(0), B, A);
        book.ended(at(80), WorkloadId(0));
        assert_eq!(may(&book, 200, 0, A, B), Err(Spent::PerHour(at(3600))));
        assert_eq!(may(&book, 3600, 0, A, B), Ok(()));
        book.forget(at(3600), WorkloadId(1));
        assert_eq!((book.under_way(), may(&book, 3600, 1, C, D)), (0, Ok(())));
        let none = Budget { per_hour: 0, ..budget };
        assert!(book.may(&none, at(0), WorkloadId(9), C, D).is_err());
    }
}
