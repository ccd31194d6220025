//! Finds new threads, CPUs and cgroups.

use std::path::PathBuf;

use quell_model::{Event, Nanos, ThreadId, ThreadState, WorkloadId};

use super::scout::{ASK_EVERY, Away, LOOPS_SHARE, Scout, Walk};
use super::{Found, Members, Thread};
use crate::LinuxError;

/// New facts of a scan.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub events: Vec<Event>,
    /// Threads that are gone.
    pub died: Vec<ThreadId>,
    /// Threads that run on, outside of the workload that they are said to be of.
    pub left: Vec<Thread>,
    /// Cgroups that were made again.
    pub groups: Vec<(WorkloadId, PathBuf)>,
    /// Workloads with new threads or cgroups, each at least once.
    pub dirty: Vec<WorkloadId>,
}

/// The cost that says when the next one is due: the lesser one of this scan's and the one before's. One may be long for what it does not
/// do: it spins in the kernel until a process that gets no CPU lets go of a file, or in a virtual machine the host takes the CPU.
fn lesser(last: &mut Option<Nanos>, cost: Nanos) -> Nanos {
    last.replace(cost).map_or(cost, |before| before.min(cost))
}

impl Members {
    /// Something changed that only a scan can find out: the next look at the machine begins with one.
    pub fn selectors_changed(&mut self) {
        self.search.finder.selectors_changed();
        self.full_look.at = None;
        self.search.full_still.forget();
        self.search.prompt_still.forget();
        self.search.away.iter_mut().for_each(|away| away.outdated = true);
    }

    /// Scans for threads that were created or exited, for CPUs that went on- or offline, and for cgroups that were made
    /// again; before a full scan is due, only where a policy waits for new threads.
    pub fn scan(&mut self, now: Nanos, news: &mut News) -> Result<(), LinuxError> {
        self.search.cpus_look.at = Some(now);
        self.scan_cpus(news)?;
        let is_full = self.full_scan_due(now);
        if !is_full && !self.prompt_scan_due(now) {
            return Ok(());
        }
        // Without an interval, each look is asked for.
        let has_interval = self.options.scan_interval > Nanos::ZERO;
        let present = if has_interval { self.proc.population() } else { None };
        let is_known = self.search.away.is_none() && self.full_look.at.is_some();
        if is_full && is_known && self.search.full_still.holds(present, now) {
            (self.full_look.at, self.search.prompt_look.at) = (Some(now), Some(now));
            return Ok(());
        }
        if is_full {
            let was_long = |cost| cost > LOOPS_SHARE;
            let is_scouts = self.search.away.is_some()
                || was_long(self.full_look.cost)
                || self.search.full_cost.is_some_and(was_long);
            if self.full_look.at.is_some() && is_scouts {
                return self.have_it_looked(now, news);
            }
        } else {
            self.search.prompt_look.at = Some(now);
            if self.search.prompt_still.holds(present, now) {
                return Ok(());
            }
            self.search.prompt_still.look(present, now);
            let walk = Walk::begin();
            let result = self.look_where_somebody_waits(now, news);
            self.search.prompt_look.cost = lesser(&mut self.search.prompt_cost, walk.cost());
            if !matches!(result, Ok(true)) {
                self.search.prompt_still.forget();
            }
            if result? {
                return Ok(());
            }
        }
        self.search.away.iter_mut().for_each(|away| away.outdated = true);
        (self.full_look.at, self.search.prompt_look.at) = (Some(now), Some(now));
        let walk = Walk::begin();
        let result = self.look_everywhere(now, news);
        self.full_look.cost = lesser(&mut self.search.full_cost, walk.cost());
        let seen = present.filter(|_| result.is_ok());
        self.search.full_still.look(seen, now);
        self.search.prompt_still.look(seen, now);
        result
    }

    /// The scout looks, or is asked for what it has found.
    fn have_it_looked(&mut self, now: Nanos, news: &mut News) -> Result<(), LinuxError> {
        if self.search.scout.is_none() {
            self.search.scout = Some(Scout::start(self.proc.root())?);
            self.search.away = None;
        }
        let Some(scout) = &self.search.scout else { return Ok(()) };
        let Some(away) = &mut self.search.away else {
            if scout.send(self.search.finder.clone(), self.selectors.clone(), now) {
                self.search.away = Some(Away { since: now, ask_at: now + ASK_EVERY, outdated: false });
                self.full_look.at = Some(now);
            } else {
                self.search.scout = None;
            }
            return Ok(());
        };
        let report = match scout.report() {
            Ok(report) => report,
            Err(true) => {
                away.ask_at = now + ASK_EVERY;
                return Ok(());
            }
            Err(false) => {
                (self.search.scout, self.search.away, self.full_look.at) = (None, None, None);
                return Ok(());
            }
        };
        let (since, outdated) = (away.since, away.outdated);
        self.search.away = None;
        self.full_look.cost = lesser(&mut self.search.full_cost, report.cost);
        if outdated {
            return Ok(());
        }
        self.search.finder = report.finder;
        self.scan_groups(|_| true, news);
        let found = self.with_what_was_seen_since(since, report.found);
        self.take_up_all(report.result, found, now, news)
    }

    /// The scout's threads; of workloads that were looked at after it had left, those that were seen then.
    fn with_what_was_seen_since(&self, since: Nanos, mut found: Vec<Found>) -> Vec<Found> {
        if self.search.prompt_look.at.is_none_or(|at| at <= since) {
            return found;
        }
        found.retain(|found| !self.waits_for_threads(found.workload));
        let seen = self.threads.iter().filter(|known| self.waits_for_threads(known.workload));
        found.extend(seen.map(Thread::as_found));
        found.sort_unstable();
        found.dedup_by_key(|found| found.tid);
        found
    }

    fn look_everywhere(&mut self, now: Nanos, news: &mut News) -> Result<(), LinuxError> {
        self.scan_groups(|_| true, news);
        let mut found = std::mem::take(&mut self.search.found);
        let result = self.search.finder.scan(&mut self.proc, &self.selectors, now, &mut found);
        self.take_up_all(result, found, now, news)
    }

    /// Takes the results of a look at everything in.
    fn take_up_all(
        &mut self,
        result: Result<(), LinuxError>,
        found: Vec<Found>,
        now: Nanos,
        news: &mut News,
    ) -> Result<(), LinuxError> {
        self.take_up(result, found, now, news)?;
        self.search.taken_at = self.search.finder.began;
        Ok(())
    }

    /// False, with nothing done, if a thread left its workload alive: then only a full scan finds its place.
    fn look_where_somebody_waits(&mut self, now: Nanos, news: &mut News) -> Result<bool, LinuxError> {
        let waiting: Vec<bool> =
            (0..self.slots.len()).map(|slot| self.waits_for_threads(WorkloadId(slot as u32))).collect();
        let waits = |id: WorkloadId| waiting.get(id.index()) == Some(&true);
        let mut found = std::mem::take(&mut self.search.found);
        let mut result = self.search.finder.scan_cgroups(&mut self.proc, &self.selectors, &waits, &mut found);
        if result.is_ok() && self.is_as_known(&waits, &found) {
            self.search.found = found;
            self.scan_groups(waits, news);
            return Ok(true);
        }
        let fresh = found.len();
        for known in &self.threads {
            let at = found[..fresh].binary_search_by_key(&known.id.tid, |found| found.tid);
            match (at, waits(known.workload)) {
                (Err(_), true) if result.is_ok() => match self.proc.stat(known.pid, known.id.tid) {
                    Ok(Some(stat)) if stat.start == known.id.start && stat.state != ThreadState::Dead => {
                        self.search.found = found;
                        return Ok(false);
                    }
                    Ok(_) => {}
                    Err(error) => result = Err(error),
                },
                // As last known: it was not read.
                (Err(_), false) => found.push(known.as_found()),
                _ => {}
            }
        }
        found.sort_unstable();
        self.scan_groups(waits, news);
        self.take_up(result, found, now, news).map(|()| true)
    }

    /// Are these all threads of the workloads that wait, as they are known?
    fn is_as_known(&self, waits: &impl Fn(WorkloadId) -> bool, found: &[Found]) -> bool {
        let mut known = self.threads.iter().filter(|known| waits(known.workload));
        let same = found.iter().all(|found| known.next().is_some_and(|known| known.is(found)));
        same && known.next().is_none()
    }

    /// Takes the results of a scan in.
    fn take_up(
        &mut self,
        result: Result<(), LinuxError>,
        found: Vec<Found>,
        now: Nanos,
        news: &mut News,
    ) -> Result<(), LinuxError> {
        let result = result.and_then(|()| self.merge(&found, now, news));
        self.search.found = found;
        if result.is_err() {
            // What was not compared now may be another's by the next look.
            self.search.finder.forget_numbers();
        }
        result?;
        self.count_threads();
        Ok(())
    }

    fn count_threads(&mut self) {
        self.slots.iter_mut().flatten().for_each(|member| {
            (member.threads, member.scanned, member.has_new_selectors) = (0, true, false);
        });
        for thread in &self.threads {
            if let Some(member) = self.slots.get_mut(thread.workload.index()).and_then(Option::as_mut) {
                member.threads += 1;
            }
        }
    }

    /// Finds the threads of those workloads whose cgroup is another one now than at the last scan.
    fn scan_groups(&mut self, of: impl Fn(WorkloadId) -> bool, news: &mut News) {
        for (id, resolved) in self.selectors.iter_mut().filter(|(id, _)| of(*id)) {
            for group in resolved.groups.iter_mut().filter_map(|group| group.refresh().then_some(group)) {
                news.groups.push((*id, group.path.clone()));
                news.dirty.push(*id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quell_model::{Class, CpuCount, Host, Selector, Signal, SignalSet, Topology, View, Workload};

    use super::*;
    use crate::testkit::FakeTree;
    use crate::{HostOptions, LinuxHost};

    /// A latency-critical workload 0 with process 100 and a best-effort one with process 200, where latency-critical
    /// threads are wanted, on a machine where a full scan takes long.
    fn watched() -> (FakeTree, LinuxHost) {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        for (pid, group) in [(100, "lc"), (200, "be")] {
            tree.process(pid, 1, "work");
            tree.cgroup(group);
            tree.join(group, &[pid]);
        }
        let mut host = tree.host(HostOptions { scan_interval: Nanos(1), ..HostOptions::default() }).unwrap();
        for (group, class) in [("lc", Class::LatencyCritical), ("be", Class::BestEffort)] {
            let mut workload = Workload::new(group, class, CpuCount::ZERO);
            workload.selectors.push(Selector::Cgroup(group.into()));
            host.attach(workload).unwrap();
        }
        look(&mut host);
        host.members.full_look.cost = Nanos::from_secs(1000);
        (tree, host)
    }

    fn look(host: &mut LinuxHost) -> (Vec<i32>, Vec<Event>) {
        let (mut view, mut events) = (View::new(host.topology()), Vec::new());
        std::thread::sleep(std::time::Duration::from_millis(5));
        host.observe(SignalSet::of(&[Signal::CriticalThreads]), &mut view, &mut events).unwrap();
        host.members.search.prompt_look.cost = Nanos::ZERO;
        (view.threads.id.iter().map(|id| id.tid).collect(), events)
    }

    #[test]
    fn threads_that_somebody_waits_for_are_found_without_looking_everywhere() {
        let (tree, mut host) = watched();
        tree.thread(100, 101);
        tree.thread(200, 201);
        let (seen, events) = look(&mut host);
        assert_eq!((seen, events.len()), (vec![100, 101], 1), "the best-effort one is not looked for yet");
        assert!(host.members.threads.iter().any(|thread| thread.id.tid == 200), "and what is known of it stays known");
        tree.remove("proc/100/task/101");
        let (seen, events) = look(&mut host);
        assert_eq!((seen, events.len()), (vec![100], 1));
        (host.members.full_look.cost, host.members.search.full_cost) = (Nanos::ZERO, None);
        let (_, events) = look(&mut host);
        assert!(matches!(events[..], [Event::ThreadBorn(WorkloadId(1), ThreadId { tid: 201, .. })]), "{events:?}");
    }

    /// Looks until there are events, whatever the look took last.
    fn look_long(host: &mut LinuxHost) -> Vec<Event> {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            // More than the loop's share.
            host.members.full_look.cost = host.members.full_look.cost.max(Nanos::from_micros(2001));
            let (_, events) = look(host);
            if !events.is_empty() || std::time::Instant::now() > end {
                return events;
            }
        }
    }

    #[test]
    fn where_a_look_takes_long_another_thread_looks() {
        let (tree, mut host) = watched();
        host.members.full_look.cost = Nanos::from_micros(2001);
        tree.thread(200, 201);
        let events = look_long(&mut host);
        assert!(matches!(events[..], [Event::ThreadBorn(WorkloadId(1), ThreadId { tid: 201, .. })]), "{events:?}");
        assert!(host.members.search.scout.is_some());
        tree.thread(100, 101);
        assert!(matches!(look_long(&mut host)[..], [Event::ThreadBorn(WorkloadId(0), ThreadId { tid: 101, .. })]));
        tree.remove("proc/200/task/201");
        let events = look_long(&mut host);
        assert!(matches!(events[..], [Event::ThreadDied(WorkloadId(1), ThreadId { tid: 201, .. })]), "{events:?}");
    }

    #[test]
    fn what_the_scout_saw_before_a_workload_came_is_not_taken() {
        let (tree, mut host) = watched();
        host.members.full_look.cost = Nanos::from_micros(2001);
        while host.members.search.away.is_none() {
            look(&mut host);
        }
        tree.process(300, 1, "work");
        tree.cgroup("new");
        tree.join("new", &[300]);
        let mut workload = Workload::new("new", Class::BestEffort, CpuCount::ZERO);
        workload.selectors.push(Selector::Cgroup("new".into()));
        host.attach(workload).unwrap();
        let (_, events) = look(&mut host);
        assert!(events.iter().any(|event| matches!(event, Event::ThreadBorn(WorkloadId(2), _))), "{events:?}");
        // The loop's own look was a short one: it asks for the report all the same, and not at every turn.
        (host.members.full_look.cost, host.members.search.full_cost) = (Nanos::ZERO, None);
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while host.members.search.away.is_some() {
            assert!(std::time::Instant::now() < end, "the report is never asked for");
            look(&mut host);
        }
        let died = |event: &Event| matches!(event, Event::ThreadDied(..));
        for _ in 0..20 {
            host.members.full_look.cost = host.members.full_look.cost.max(Nanos::from_micros(2001));
            assert!(!look(&mut host).1.iter().any(died));
        }
    }

    #[test]
    fn what_cannot_be_read_makes_no_other_thread_a_new_one() {
        let (tree, mut host) = watched();
        tree.thread(100, 150);
        tree.thread(200, 201);
        let of_150 = tree.read("proc/100/task/150/stat");
        tree.remove("proc/100/task/150/stat");
        std::fs::create_dir(tree.path().join("proc/100/task/150/stat")).unwrap();
        let known = |host: &mut LinuxHost| {
            host.members.selectors_changed();
            let mut news = News::default();
            let result = host.members.scan(crate::clock::now(), &mut news);
            let tids: Vec<i32> = host.members.threads.iter().map(|thread| thread.id.tid).collect();
            (result.is_ok(), tids, news.events.len())
        };
        assert_eq!(known(&mut host), (false, vec![100, 200], 0), "a failed read forgets none");
        tree.remove("proc/100/task/150/stat");
        tree.write("proc/100/task/150/stat", &of_150);
        assert_eq!(known(&mut host), (true, vec![100, 150, 200, 201], 2), "and what is new is born once");
    }

    #[test]
    fn one_long_scan_between_short_ones_puts_off_nothing() {
        let (short, long, mut last) = (Nanos::from_millis(1), Nanos::from_secs(8), None);
        assert_eq!(
            [short, long, short, long, long].map(|cost| lesser(&mut last, cost)),
            [short, short, short, short, long]
        );
    }

    #[test]
    fn a_thread_that_leaves_its_workload_alive_is_looked_for_everywhere() {
        let (tree, mut host) = watched();
        tree.write("cgroup/lc/cgroup.procs", "");
        tree.write("cgroup/be/cgroup.procs", "100\n200\n");
        let (seen, events) = look(&mut host);
        assert_eq!(seen, [0; 0]);
        let [Event::ThreadLeft(WorkloadId(0), died), Event::ThreadBorn(WorkloadId(1), born)] = events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(died, born);
    }
}
