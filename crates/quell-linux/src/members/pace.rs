//! Times and scope of scans for new threads.

use quell_model::{Nanos, Signal, WorkloadId};

use super::{Level, Member, Members};
use crate::clock::Look;

/// Scans for threads take at most a twentieth of a CPU if a policy waits for those of every workload …
const PROMPT_SHARE: u64 = 20;
/// … four thousandths if it waits for those of some cgroups …
const GROUPS_SHARE: u64 = 250;
/// … and two thousandths where they are only counted.
const COUNTING_SHARE: u64 = 500;

/// No pause between two scans is longer, whatever the last one took and whatever its share: in a virtual machine, the CPU time of a scan has in it what the
/// host took away meanwhile.
const LONGEST_PAUSE: Nanos = Nanos::from_secs(30);

/// CPUs that went or came are noticed within this time, or within a longer scan interval.
const CPUS_INTERVAL: Nanos = Nanos::from_millis(100);

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

    /// Is it time to look into the cgroups whose new threads a policy waits for?
    pub(super) fn prompt_scan_due(&self, now: Nanos) -> bool {
        self.waiting() == Waiting::SomeGroups
            && self.next_after(self.search.prompt_look, GROUPS_SHARE).is_none_or(|at| now >= at)
    }

    /// Is it time to look everywhere?
    pub(super) fn full_scan_due(&self, now: Nanos) -> bool {
        self.next_full_scan(self.waiting()).is_none_or(|at| now >= at)
    }

    /// Due time of the next scan for new threads; None: at once. On a machine with thousands of processes a scan takes
    /// milliseconds: then scans are less frequent, so that they take no more than their share of a CPU.
    pub fn next_scan(&self) -> Option<Nanos> {
        let waiting = self.waiting();
        let full = self.next_full_scan(waiting)?.min(self.next_look_at_cpus()?);
        if waiting != Waiting::SomeGroups {
            return Some(full);
        }
        Some(full.min(self.next_after(self.search.prompt_look, GROUPS_SHARE)?))
    }

    /// Which CPUs are online is one file's line: it is read however long a scan takes, or its scout is away.
    fn next_look_at_cpus(&self) -> Option<Nanos> {
        match self.options.scan_interval {
            Nanos::ZERO => Some(Nanos::MAX),
            interval => self.search.cpus_look.next(interval.max(CPUS_INTERVAL), 1),
        }
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
        self.next_after(self.full_look, share)
    }

    /// Due time of the look after this one, which takes no more than one in `share`.
    fn next_after(&self, look: Look, share: u64) -> Option<Nanos> {
        let interval = self.options.scan_interval;
        Some(look.next(interval, share)?.min(look.at? + interval.max(LONGEST_PAUSE)))
    }
}

#[cfg(test)]
mod tests {
    use quell_model::{Class, CpuCount, Event, Host as _, Selector, Signal, SignalSet, Topology, View, Workload};

    use super::*;
    use crate::HostOptions;
    use crate::testkit::FakeTree;

    #[test]
    fn a_scan_that_took_long_puts_off_neither_the_next_one_for_ever_nor_the_cpus() {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        let mut host = tree.host(HostOptions::default()).unwrap();
        let (mut view, mut events) = (View::new(host.topology()), Vec::new());
        host.observe(SignalSet::default(), &mut view, &mut events).unwrap();
        let at = host.members.full_look.at.unwrap();
        host.members.full_look.cost = Nanos::from_secs(8);
        assert_eq!(host.members.next_full_scan(Waiting::None), Some(at + LONGEST_PAUSE));
        tree.online_are(&Topology::synthetic(1, 1, 4, 1), &"0-2".parse().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(110));
        host.observe(SignalSet::default(), &mut view, &mut events).unwrap();
        assert_eq!(host.members.full_look.at, Some(at), "it scanned for nothing else");
        assert!(events.contains(&Event::Offline(quell_model::CpuId(3))), "{events:?}");
    }

    #[test]
    fn a_look_at_the_cpus_is_no_scan_where_processes_are_waited_for() {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        tree.process(100, 1, "work");
        let mut host = tree.host(HostOptions::default()).unwrap();
        let mut workload = Workload::new("a", Class::LatencyCritical, CpuCount::ZERO);
        workload.selectors.push(Selector::Pid(100));
        host.attach(workload).unwrap();
        let (mut view, wanted) = (View::new(host.topology()), SignalSet::of(&[Signal::CriticalThreads]));
        host.observe(wanted, &mut view, &mut Vec::new()).unwrap();
        let at = host.members.full_look.at.unwrap();
        host.members.full_look.cost = Nanos::from_millis(200);
        std::thread::sleep(std::time::Duration::from_millis(110));
        host.observe(wanted, &mut view, &mut Vec::new()).unwrap();
        assert_eq!((host.members.full_look.at, view.threads.len()), (Some(at), 1));
    }
}
