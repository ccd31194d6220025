//! Times and scope of scans for new threads.

use quell_model::{Nanos, Signal, WorkloadId};

use super::{Level, Member, Members};

/// Scans for threads take at most a twentieth of a CPU if a policy waits for those of every workload …
const PROMPT_SHARE: u64 = 20;
/// … four thousandths if it waits for those of some cgroups …
const GROUPS_SHARE: u64 = 250;
/// … and two thousandths where they are only counted.
const COUNTING_SHARE: u64 = 500;

/// Workloads that wait for new threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    None,
    /// Some workloads, whose cgroups list their threads: a scan of those is enough.
    SomeGroups,
    Everybody,
}

impl Members {
    /// Must new threads of this workload be found soon? Where they are to be seen one by one, or to be given values.
    fn is_waiting(&self, member: &Member) -> bool {
        member.level == Level::Threads
            || self.wanted.contains_threads_of(member.spec.class)
            || self.wanted.contains(Signal::QueueingDelay)
    }

    /// Must new threads of the workload in this slot be found soon?
    pub(super) fn waits_for_threads(&self, id: WorkloadId) -> bool {
        self.get(id).is_some_and(|member| self.is_waiting(member))
    }

    fn waiting(&self) -> Waiting {
        let mut member = self.slots.iter().flatten();
        if !member.clone().any(|member| self.is_waiting(member)) {
            Waiting::None
        } else if member.all(|member| self.is_waiting(member))
            || self.selectors.iter().any(|(_, resolved)| resolved.selects_processes())
        {
            Waiting::Everybody
        } else {
            Waiting::SomeGroups
        }
    }

    /// Is a scan for new threads due?
    pub fn scan_due(&self, now: Nanos) -> bool {
        self.next_scan().is_none_or(|at| now >= at)
    }

    /// Is it time to look everywhere?
    pub(super) fn full_scan_due(&self, now: Nanos) -> bool {
        self.next_full_scan(self.waiting()).is_none_or(|at| now >= at)
    }

    /// Due time of the next scan for new threads; None: at once. On a machine with thousands of processes a scan takes
    /// milliseconds: then scans are less frequent, so that they take no more than their share of a CPU.
    pub fn next_scan(&self) -> Option<Nanos> {
        let waiting = self.waiting();
        let full = self.next_full_scan(waiting)?;
        if waiting != Waiting::SomeGroups {
            return Some(full);
        }
        Some(full.min(self.search.prompt_look.next(self.options.scan_interval, GROUPS_SHARE)?))
    }

    fn next_full_scan(&self, waiting: Waiting) -> Option<Nanos> {
        // One that is wanted at once is not the scout's.
        if let Some(away) = self.search.away.as_ref().filter(|_| self.full_look.at.is_some()) {
            return Some(away.ask_at);
        }
        if self.options.scan_interval == Nanos::ZERO {
            return self.full_look.at;
        }
        let share = if waiting == Waiting::Everybody { PROMPT_SHARE } else { COUNTING_SHARE };
        self.full_look.next(self.options.scan_interval, share)
    }
}
