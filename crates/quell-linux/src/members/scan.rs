//! Finds new threads, CPUs and cgroups.

use std::path::PathBuf;

use quell_model::{Event, Nanos, ThreadId, ThreadState, WorkloadId};

use super::departure::{Fate, fate, why};
use super::scout::{ASK_EVERY, Away, LOOPS_SHARE, Scout, Walk};
use super::{Finder, Found, Members, Thread, resolved};
use crate::LinuxError;
use crate::procfs::{ProcFs, SchedStat, ThreadStat, ticks};

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

impl Members {
    /// Something changed that only a scan can find out: the next look at the machine begins with one.
    pub fn selectors_changed(&mut self) {
        self.search.finder.selectors_changed();
        self.full_look.at = None;
        self.search.away.iter_mut().for_each(|away| away.outdated = true);
    }

    /// Scans for threads that were created or exited, for CPUs that went on- or offline, and for cgroups that were made
    /// again; before a full scan is due, only where a policy waits for new threads.
    pub fn scan(&mut self, now: Nanos, news: &mut News) -> Result<(), LinuxError> {
        if self.full_scan_due(now) {
            let is_scouts = self.search.away.is_some() || self.full_look.cost > LOOPS_SHARE;
            if self.full_look.at.is_some() && is_scouts {
                return self.have_it_looked(now, news);
            }
        } else {
            self.search.prompt_look.at = Some(now);
            let walk = Walk::begin();
            let result = self.look_where_somebody_waits(now, news);
            self.search.prompt_look.cost = walk.cost();
            if result? {
                return Ok(());
            }
        }
        self.search.away.iter_mut().for_each(|away| away.outdated = true);
        (self.full_look.at, self.search.prompt_look.at) = (Some(now), Some(now));
        let walk = Walk::begin();
        let result = self.look_everywhere(now, news);
        self.full_look.cost = walk.cost();
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
        self.full_look.cost = report.cost;
        if outdated {
            return Ok(());
        }
        self.search.finder = report.finder;
        self.scan_cpus(news)?;
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
        self.scan_cpus(news)?;
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
        self.scan_cpus(news)?;
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

    /// Two ascending lists: the threads that are known and those that were found.
    fn merge(&mut self, found: &[Found], now: Nanos, news: &mut News) -> Result<(), LinuxError> {
        let finder = &self.search.finder;
        let certain = finder.all_certain();
        let is_same =
            |(known, found): (&Thread, &Found)| known.is(found) && (certain || !finder.is_doubtful(found.tid));
        if self.threads.len() == found.len() && self.threads.iter().zip(found).all(is_same) {
            return Ok(());
        }
        let before = Before::of(&self.threads);
        let mut known = std::mem::take(&mut self.threads).into_iter().peekable();
        let mut threads = Vec::with_capacity(found.len());
        let told = news.died.len() + news.left.len();
        let first_left = news.left.len();
        let (mut born, mut result) = (0, Ok(()));
        for found in found {
            match self.merge_one(found, &mut known, &before, now, news) {
                Ok(Some(thread)) => {
                    born += usize::from(thread.is_new);
                    threads.push(thread.thread);
                }
                Ok(None) => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        while let (true, Some(missing)) = (result.is_ok(), known.peek()) {
            result = self.missed(&{ *missing }, now, news);
            if result.is_ok() {
                known.next();
            }
        }
        // What could not be read is as it was.
        threads.extend(known);
        self.threads = threads;
        for at in first_left..news.left.len() {
            let added = self.add_those_born_since(at, &before, news);
            result = result.and(added);
        }
        self.threads_changed += u64::from(born + news.died.len() + news.left.len() > told);
        result
    }

    /// A thread that was found; what is known is taken when it was read. None: it has ended meanwhile.
    fn merge_one(
        &mut self,
        found: &Found,
        known: &mut Known,
        before: &Before,
        now: Nanos,
        news: &mut News,
    ) -> Result<Option<Merged>, LinuxError> {
        while let Some(missing) = known.peek().copied().filter(|known| known.id.tid < found.tid) {
            self.missed(&missing, now, news)?;
            known.next();
        }
        let mut was_elsewhere = false;
        if let Some(same) = known.peek().copied().filter(|known| known.id.tid == found.tid) {
            if is_same_still(&same, found, &self.search.finder) {
                known.next();
                return Ok(Some(Merged { thread: same, is_new: false }));
            }
            let stat = self.proc.stat(found.pid, found.tid)?;
            known.next();
            match fate(same.id, same.is(found), stat.as_ref()) {
                Fate::There => return Ok(Some(Merged { thread: same, is_new: false })),
                Fate::Left => {
                    was_elsewhere = true;
                    self.left(&same, now, news);
                }
                Fate::Ended => self.died(&same, news),
            }
        }
        let Some(thread) = self.born(found, before, news)? else { return Ok(None) };
        news.dirty.push(thread.workload);
        // What moved from one workload to another has its own values again by then.
        let thread = Thread { born_under: thread.born_under && !was_elsewhere, ..thread };
        Ok(Some(Merged { thread, is_new: true }))
    }

    /// A thread was not found again.
    fn missed(&mut self, thread: &Thread, now: Nanos, news: &mut News) -> Result<(), LinuxError> {
        let stat = self.proc.stat(thread.pid, thread.id.tid)?;
        match fate(thread.id, false, stat.as_ref()) {
            Fate::Ended => self.died(thread, news),
            Fate::Left | Fate::There => self.left(thread, now, news),
        }
        Ok(())
    }

    /// A thread that is new; `before` are those that were there at the last scan.
    fn born(&mut self, found: &Found, before: &Before, news: &mut News) -> Result<Option<Thread>, LinuxError> {
        let stat = self.proc.stat(found.pid, found.tid)?;
        // A dead one that its parent has not asked for yet is still listed.
        let Some(stat) = stat.filter(|stat| stat.state != ThreadState::Dead) else { return Ok(None) };
        let counted = self.proc.schedstat(found.pid, found.tid)?;
        let run = counted.unwrap_or(SchedStat { run_time: ticks(stat.ticks), ..SchedStat::default() });
        let id = ThreadId { tid: found.tid, start: stat.start };
        // What was there at the last look, and was no workload's or left one then, has its own values.
        let is_older = self.search.taken_at.is_some_and(|at| stat.start < at);
        let is_old = is_older && !self.search.adopted;
        let born_of = match is_old {
            true => None,
            false => before.creator_of(&mut self.proc, &self.search.finder, found.pid, &stat)?,
        };
        let Ok(member) = self.get_mut(found.workload) else { return Ok(None) };
        member.departures.returned(found.pid);
        // A program that another process started, and that is found with all its threads at once, inherited nothing.
        let joined = is_old || found.explicit && born_of.is_none();
        let has_history = !member.history.is_empty();
        // Born since the workload attached: all its time counts. What came from elsewhere counts from now on.
        let run = if member.scanned && !is_older { SchedStat::default() } else { run };
        news.events.push(Event::ThreadBorn(found.workload, id));
        Ok(Some(Thread {
            id,
            pid: found.pid,
            parent: stat.parent,
            creator: before.thread(stat.parent).filter(|creator| creator.start <= stat.start),
            workload: found.workload,
            explicit: found.explicit,
            born_under: (self.search.adopted || has_history || born_of.is_some_and(|id| id != found.workload))
                && !joined,
            born_of,
            state: stat.state,
            cpu: stat.cpu,
            class: stat.class,
            run,
            exact: counted.is_some(),
        }))
    }

    fn died(&self, thread: &Thread, news: &mut News) {
        news.died.push(thread.id);
        if self.get(thread.workload).is_some() {
            news.events.push(Event::ThreadDied(thread.workload, thread.id));
        }
    }

    fn left(&mut self, thread: &Thread, now: Nanos, news: &mut News) {
        news.left.push(*thread);
        let Members { slots, selectors, proc, roots, .. } = self;
        let Some(member) = slots.get_mut(thread.workload.index()).and_then(Option::as_mut) else { return };
        news.events.push(Event::ThreadLeft(thread.workload, thread.id));
        if let Some(resolved) = resolved(selectors, thread.workload).filter(|_| !member.has_new_selectors) {
            member.departures.note(thread, why(proc, &roots.cgroup, resolved, thread), now);
        }
    }

    /// Threads that a process which left had created since the last scan may have inherited values, and leave as well.
    fn add_those_born_since(&mut self, at: usize, before: &Before, news: &mut News) -> Result<(), LinuxError> {
        let left = news.left[at];
        let mut tids = Vec::new();
        self.proc.threads(left.pid, &mut tids)?;
        for tid in tids {
            let Some(stat) = self.proc.stat(left.pid, tid)? else { continue };
            let id = ThreadId { tid, start: stat.start };
            let is_known = before.threads.binary_search(&id).is_ok()
                || self.thread(tid).is_some_and(|known| known.id == id)
                || news.left.iter().any(|other| other.id == id);
            if !is_known {
                news.left.push(Thread { id, parent: stat.parent, born_under: true, ..left });
            }
        }
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

/// The threads of the last scan that were not compared yet.
type Known = std::iter::Peekable<std::vec::IntoIter<Thread>>;

/// A thread of this scan.
struct Merged {
    thread: Thread,
    is_new: bool,
}

/// The threads of the last scan.
struct Before {
    /// Ascending.
    threads: Vec<ThreadId>,
    /// Processes, ascending, each with the start of its oldest thread, and that one's workload.
    pids: Vec<(i32, u64, WorkloadId)>,
    /// Start time of the youngest.
    youngest: u64,
}

/// Generations that one scan may find at once.
const GENERATIONS: usize = 16;

impl Before {
    fn of(threads: &[Thread]) -> Before {
        let mut pids: Vec<_> = threads.iter().map(|thread| (thread.pid, thread.id.start, thread.workload)).collect();
        // Sorted almost, because a process's threads have numbers close to its own.
        pids.sort();
        pids.dedup_by_key(|known| known.0);
        let youngest = threads.iter().map(|thread| thread.id.start).max().unwrap_or_default();
        Before { threads: threads.iter().map(|thread| thread.id).collect(), pids, youngest }
    }

    fn thread(&self, tid: i32) -> Option<ThreadId> {
        self.threads.binary_search_by_key(&tid, |known| known.tid).ok().map(|at| self.threads[at])
    }

    /// The workload whose values a new thread may have inherited: its process's, or that of the nearest ancestor that was there.
    /// Those between are as new as the thread. What is younger than the thread has an ancestor's number, and is none.
    fn creator_of(
        &self,
        proc: &mut ProcFs,
        finder: &Finder,
        pid: i32,
        thread: &ThreadStat,
    ) -> Result<Option<WorkloadId>, LinuxError> {
        if self.pids.is_empty() {
            return Ok(None);
        }
        let (mut parent, born) = (thread.parent, thread.start);
        let mut known = self.workload_of(proc, finder, pid, born)?;
        for _ in 0..GENERATIONS {
            if known.is_some() || parent <= 1 {
                break;
            }
            known = self.workload_of(proc, finder, parent, born)?;
            let stat = if known.is_none() { proc.stat(parent, parent)? } else { None };
            let Some(stat) = stat.filter(|stat| stat.start >= self.youngest) else { break };
            parent = stat.parent;
        }
        Ok(known)
    }

    fn workload_of(
        &self,
        proc: &mut ProcFs,
        finder: &Finder,
        pid: i32,
        born: u64,
    ) -> Result<Option<WorkloadId>, LinuxError> {
        let Ok(at) = self.pids.binary_search_by_key(&pid, |known| known.0) else { return Ok(None) };
        let (_, oldest, workload) = self.pids[at];
        if oldest > born {
            return Ok(None);
        }
        let is_same = !finder.is_doubtful(pid) || proc.stat(pid, pid)?.is_some_and(|process| process.start <= oldest);
        Ok(is_same.then_some(workload))
    }
}

fn is_same_still(known: &Thread, found: &Found, finder: &Finder) -> bool {
    known.is(found) && !finder.is_doubtful(found.tid)
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
        host.members.full_look.cost = Nanos::ZERO;
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
        host.members.full_look.cost = Nanos::ZERO;
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
