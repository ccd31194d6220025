//! Choice of a CPU at a wake-up, and of the next holder at a yield.

use crate::{CpuId, CpuSet, Topology, WorkloadId};

/// One workload's rights, from the rules in force for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Is it latency-critical?
    pub lc: bool,
    /// Number of CPUs that it gets at once.
    pub guaranteed: u32,
    /// Number of CPUs, the guaranteed ones included, up to which it also gets those of best-effort work at once.
    pub burst: u32,
    /// Upper bound on the CPUs that it holds.
    pub limit: u32,
    /// Its rank among the candidates for a yielded CPU.
    pub rank: u32,
}

impl Default for Standing {
    /// Without a rule a workload is best-effort, unlimited and last.
    fn default() -> Standing {
        Standing { lc: false, guaranteed: 0, burst: 0, limit: u32::MAX, rank: u32::MAX }
    }
}

/// Holders of CPUs, and their rights.
#[derive(Clone, Copy, Debug)]
pub struct Occupancy<'a> {
    /// The CPUs that can be given out.
    pub pool: CpuSet,
    /// CPUs of the pool that sibling bans park.
    pub banned: CpuSet,
    /// Holder of each CPU, by number.
    pub holder: &'a [Option<WorkloadId>],
    /// Rights of each workload, by slot.
    pub standing: &'a [Standing],
    /// Topology, for siblings and distances.
    pub topology: &'a Topology,
}

impl Occupancy<'_> {
    /// The workload's rights.
    #[must_use]
    pub fn standing(&self, workload: WorkloadId) -> Standing {
        self.standing.get(workload.index()).copied().unwrap_or_default()
    }

    /// Number of CPUs of the pool that the workload holds.
    #[must_use]
    pub fn held(&self, workload: WorkloadId) -> u32 {
        self.pool.iter().filter(|&cpu| self.holder_of(cpu) == Some(workload)).count() as u32
    }

    fn holder_of(&self, cpu: CpuId) -> Option<WorkloadId> {
        self.holder.get(cpu.index()).copied().flatten()
    }

    /// Relation of the CPU's siblings to this workload.
    fn beside(&self, cpu: CpuId, workload: WorkloadId) -> Beside {
        let beside = |&sibling: &CpuId| match self.holder_of(sibling) {
            None => Beside::NoOne,
            Some(other) if other == workload => Beside::Itself,
            Some(_) => Beside::Others,
        };
        self.topology.siblings(cpu).iter().map(beside).max().unwrap_or(Beside::NoOne)
    }

    fn distance(&self, cpu: CpuId, last: Option<CpuId>) -> Distance {
        let place = |cpu| self.topology.cpu(cpu);
        match last.and_then(place).zip(place(cpu)) {
            Some((last, cpu)) if last.id == cpu.id => Distance::None,
            Some((last, cpu)) if last.llc == cpu.llc => Distance::Cache,
            Some((last, cpu)) if last.socket == cpu.socket => Distance::Socket,
            _ => Distance::Far,
        }
    }
}

/// Present holder of a candidate CPU; the first variant is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum From {
    NoOne,
    BestEffort,
    /// A latency-critical workload that holds more than it is guaranteed.
    LatencyCritical,
}

/// Load of a CPU's siblings, the best first (caladan-osdi20 §5.2.1: "we prefer sibling pairs that are both idle.
/// Second, we prefer hyperthread pairings between *different* tasks").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Beside {
    NoOne,
    Others,
    Itself,
}

/// From the CPU where a thread ran last, the nearest first: itself, one of its last-level cache, of its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    None,
    Cache,
    Socket,
    Far,
}

/// The CPU that a workload gets at once when one of its threads wakes up: one without a holder; below its guarantee or
/// within its burst, one of a best-effort workload; below its guarantee, also one of a latency-critical workload that
/// holds more than its guarantee. Among equals, the one with the best siblings, then the nearest to the CPU where the
/// thread ran last, then the lowest number. None at its limit, or without such a CPU.
#[must_use]
pub fn on_wake_up(now: &Occupancy<'_>, workload: WorkloadId, last: Option<CpuId>) -> Option<CpuId> {
    let own = now.standing(workload);
    let held = now.held(workload);
    if held >= own.limit {
        return None;
    }
    let (is_guaranteed, is_burst) = (held < own.guaranteed, held < own.burst);
    let from = |cpu| match now.holder_of(cpu) {
        None => Some(From::NoOne),
        Some(other) if other == workload => None,
        Some(other) => {
            let standing = now.standing(other);
            let is_surplus = standing.lc && now.held(other) > standing.guaranteed;
            match standing.lc {
                false if is_guaranteed || is_burst => Some(From::BestEffort),
                true if is_guaranteed && is_surplus => Some(From::LatencyCritical),
                _ => None,
            }
        }
    };
    let available = now.pool.difference(&now.banned);
    let fit = |cpu| Some((from(cpu)?, now.beside(cpu, workload)));
    let wholly_fit = Some((From::NoOne, Beside::NoOne));
    if let Some(last) = last.filter(|&last| available.contains(last) && fit(last) == wholly_fit) {
        return Some(last);
    }
    let mut best: Option<((From, Beside), Distance, CpuId)> = None;
    for cpu in available.iter() {
        let Some(fit) = fit(cpu).filter(|fit| best.is_none_or(|(least, ..)| *fit <= least)) else { continue };
        let found = (fit, now.distance(cpu, last), cpu);
        if best.is_none_or(|best| found < best) {
            best = Some(found);
        }
        if Some(fit) == wholly_fit && (found.1 <= Distance::Cache || last.is_none()) {
            break;
        }
    }
    best.map(|(.., cpu)| cpu)
}

/// The next holder of a yielded CPU among the workloads that wait for one: first a latency-critical one below its
/// guarantee, then latency-critical before best-effort, then the lowest rank, then the fewest other CPUs held, then the
/// lowest slot. None for a banned CPU; a workload at its limit is left out.
#[must_use]
pub fn next_holder(
    now: &Occupancy<'_>,
    cpu: CpuId,
    waiting: impl IntoIterator<Item = WorkloadId>,
) -> Option<WorkloadId> {
    if now.banned.contains(cpu) || !now.pool.contains(cpu) {
        return None;
    }
    waiting
        .into_iter()
        .filter_map(|workload| {
            let standing = now.standing(workload);
            let held = now.held(workload) - u32::from(now.holder_of(cpu) == Some(workload));
            (held < standing.limit).then_some((workload, standing, held))
        })
        .min_by_key(|&(workload, standing, held)| {
            (!standing.lc || held >= standing.guaranteed, !standing.lc, standing.rank, held, workload)
        })
        .map(|(workload, ..)| workload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    const LC: Standing = Standing { lc: true, guaranteed: 1, burst: 0, limit: 2, rank: 0 };
    const BE: Standing = Standing { lc: false, guaranteed: 0, burst: 0, limit: 8, rank: 1 };

    /// Eight CPUs without siblings.
    static APART: LazyLock<Topology> = LazyLock::new(|| Topology::synthetic(1, 1, 8, 1));
    /// Three pairs: 0 and 3, 1 and 4, 2 and 5.
    static PAIRS: LazyLock<Topology> = LazyLock::new(|| Topology::synthetic(1, 1, 3, 2));

    fn occupancy<'a>(holder: &'a [Option<WorkloadId>], standing: &'a [Standing]) -> Occupancy<'a> {
        Occupancy { pool: CpuSet::first(holder.len()), banned: CpuSet::EMPTY, holder, standing, topology: &APART }
    }

    #[test]
    fn idle_pairs_come_first_and_nobody_runs_beside_itself_where_there_is_a_choice() {
        let (lc, be) = (WorkloadId(0), WorkloadId(1));
        let standing = [Standing { guaranteed: 2, burst: 6, limit: 6, ..LC }, BE];
        let on_pairs = |holder: [Option<WorkloadId>; 6]| {
            on_wake_up(&Occupancy { topology: &PAIRS, ..occupancy(&holder, &standing) }, lc, None)
        };
        assert_eq!(on_pairs([None, Some(be), None, Some(lc), None, None]), Some(CpuId(2)), "an idle pair");
        assert_eq!(on_pairs([None, Some(be), Some(be), Some(lc), Some(be), None]), Some(CpuId(5)), "beside others");
        assert_eq!(on_pairs([None, Some(be), Some(be), Some(lc), Some(be), Some(be)]), Some(CpuId(0)), "a free one");
        assert_eq!(on_pairs([Some(be), Some(be), Some(be), Some(lc), Some(be), Some(be)]), Some(CpuId(1)));
    }

    #[test]
    fn of_equal_cpus_the_nearest_to_the_last_one_is_taken() {
        let far = Topology::synthetic(2, 2, 2, 1);
        let (lc, be) = (WorkloadId(0), WorkloadId(1));
        let standing = [Standing { guaranteed: 8, limit: 8, ..LC }, BE];
        let wakes = |holder: [Option<WorkloadId>; 8], last| {
            on_wake_up(&Occupancy { topology: &far, ..occupancy(&holder, &standing) }, lc, last).map(|cpu| cpu.0)
        };
        let (none, held) = (None, Some(be));
        let all_held = [held; 8];
        assert_eq!(wakes([none; 8], Some(CpuId(5))), Some(5), "the same");
        assert_eq!(wakes([none, none, none, none, none, held, none, none], Some(CpuId(5))), Some(4), "its cache");
        assert_eq!(wakes([none, none, none, none, held, held, none, none], Some(CpuId(5))), Some(6), "its socket");
        assert_eq!(wakes([held, none, none, none, held, held, held, held], Some(CpuId(5))), Some(1), "the lowest");
        assert_eq!(wakes(all_held, Some(CpuId(5))), Some(5), "of best-effort work, too");
        assert_eq!(wakes([none; 8], None), Some(0), "it ran nowhere");
    }

    #[test]
    fn a_guaranteed_cpu_is_taken_from_best_effort_work() {
        let (lc, be) = (WorkloadId(0), WorkloadId(1));
        let (standing, both_be, one_each) = ([LC, BE], [Some(be), Some(be)], [Some(lc), Some(be)]);
        let now = occupancy(&both_be, &standing);
        assert_eq!(on_wake_up(&now, lc, None), Some(CpuId(0)));
        let now = occupancy(&one_each, &standing);
        assert_eq!(on_wake_up(&now, lc, None), None, "the second CPU is not guaranteed");
        assert_eq!(next_holder(&now, CpuId(0), [be, lc]), Some(lc));
    }

    #[test]
    fn a_burst_takes_cpus_of_best_effort_work_alone() {
        let (lc, be, other) = (WorkloadId(0), WorkloadId(1), WorkloadId(2));
        let bursts = Standing { burst: 2, ..LC };
        let standing = [bursts, BE, Standing { guaranteed: 0, ..LC }];
        let one_each = [Some(lc), Some(be)];
        assert_eq!(on_wake_up(&occupancy(&one_each, &standing), lc, None), Some(CpuId(1)));
        let beside_lc = [Some(lc), Some(other)];
        assert_eq!(on_wake_up(&occupancy(&beside_lc, &standing), lc, None), None);
        let at_its_burst = [Some(lc), Some(lc), Some(be)];
        let limited_by_burst = [Standing { limit: 3, ..bursts }, BE];
        assert_eq!(on_wake_up(&occupancy(&at_its_burst, &limited_by_burst), lc, None), None);
    }

    #[test]
    fn of_equal_rank_who_holds_the_fewest_comes_first() {
        let [first, second, third] = [0, 1, 2].map(WorkloadId);
        let standing = [BE, BE, Standing { rank: 0, ..BE }];
        let holder = [None, Some(first), Some(third), Some(third)];
        assert_eq!(next_holder(&occupancy(&holder, &standing), CpuId(0), [first, second]), Some(second));
        assert_eq!(
            next_holder(&occupancy(&holder, &standing), CpuId(0), [first, second, third]),
            Some(third),
            "the rank"
        );
        assert_eq!(
            next_holder(&occupancy(&[Some(second), None], &standing), CpuId(0), [first, second]),
            Some(first),
            "none"
        );
    }

    #[test]
    fn a_banned_cpu_stays_empty() {
        let now = Occupancy { banned: CpuSet::first(1), ..occupancy(&[None], &[LC]) };
        assert_eq!(on_wake_up(&now, WorkloadId(0), None), None);
        assert_eq!(next_holder(&now, CpuId(0), [WorkloadId(0)]), None);
    }

    fn any_standing() -> impl Strategy<Value = Standing> {
        (any::<bool>(), 0u32..3, 0u32..4, 0u32..5, 0u32..4).prop_map(|(lc, guaranteed, burst, limit, rank)| Standing {
            lc,
            guaranteed: if lc { guaranteed } else { 0 },
            burst: if lc { burst } else { 0 },
            limit,
            rank,
        })
    }

    proptest! {
        #[test]
        fn nobody_loses_a_cpu_to_someone_with_less_right(
            standing in proptest::collection::vec(any_standing(), 4),
            holder in proptest::collection::vec(proptest::option::of((0u32..4).prop_map(WorkloadId)), 6),
            who in (0u32..4).prop_map(WorkloadId),
        ) {
            let now = occupancy(&holder, &standing);
            if let Some(cpu) = on_wake_up(&now, who, None) {
                prop_assert!(now.held(who) < now.standing(who).limit);
                if let Some(loser) = holder[cpu.index()] {
                    let rights = now.standing(loser);
                    let (own, held) = (now.standing(who), now.held(who));
                    prop_assert!(!rights.lc || now.held(loser) > rights.guaranteed);
                    prop_assert!(held < own.guaranteed || (!rights.lc && held < own.burst));
                }
            }
        }

        #[test]
        fn the_line_is_kept(
            standing in proptest::collection::vec(any_standing(), 4),
            waiting in proptest::collection::vec((0u32..4).prop_map(WorkloadId), 0..6),
        ) {
            let holder = [None; 3];
            let now = occupancy(&holder, &standing);
            match next_holder(&now, CpuId(0), waiting.iter().copied()) {
                Some(next_holder) => {
                    prop_assert!(waiting.contains(&next_holder) && now.standing(next_holder).limit > 0);
                    let better = waiting.iter().any(|&w| {
                        let (a, b) = (now.standing(w), now.standing(next_holder));
                        a.limit > 0 && a.guaranteed > 0 && b.guaranteed == 0
                    });
                    prop_assert!(!better);
                }
                None => prop_assert!(waiting.iter().all(|&w| now.standing(w).limit == 0)),
            }
        }
    }
}
