//! Threads that were created under a value of Quell's.
//!
//! A new thread has its parent's CPUs and (unless it was real-time) its class. One that was created between the host's
//! last scan and Quell's death is in no journal. It is found as a thread of a process in the journal, of a descendant
//! of one, or of an orphan of its session, that is younger than Quell's first write there and has exactly a value that
//! Quell wrote. It gets the original value of its process's first thread; a process's first thread gets its parent's.
//! (Linux does not record which of several threads with different values was a thread's parent.)

use std::collections::{BTreeMap, HashMap};

use quell_linux::LinuxError;
use quell_linux::procfs::ProcFs;
use quell_linux::sched::ThreadClass;
use quell_linux::write::{Medium, Place, Touched, Value};
use quell_model::{SchedClass, ThreadId, WorkloadId};

use super::processes::{Known, Process, Reach, processes};
use crate::journal::Replay;
use crate::journal::replay::same;

/// Inherited values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Cpus,
    Class,
}

/// Quell's values on the threads of one process.
#[derive(Debug)]
struct Family {
    workload: Option<WorkloadId>,
    group: i32,
    session: i32,
    /// The start of its oldest thread in the journal: a process that began later only has the same number.
    oldest: u64,
    cpus: Values,
    class: Values,
}

/// The values of one sort.
#[derive(Debug, Default)]
struct Values {
    /// Time of Quell's first write of one.
    since: Option<u64>,
    /// Original value of the process's first thread, if it is in the journal.
    first: Option<Value>,
    /// Original values of its threads, with their numbers.
    origins: Vec<(Value, u32)>,
    written: Vec<Value>,
}

/// The machine's processes beside the journal's entries about them.
struct Sweep<'a> {
    families: BTreeMap<i32, Family>,
    processes: HashMap<i32, Process>,
    medium: &'a mut dyn Medium,
}

/// The values to restore on threads that are in no journal, but for those that another Quell has. The places in the journal have
/// been restored already.
///
/// # Errors
/// If the processes cannot be read.
pub(super) fn inherited(
    replay: &Replay,
    proc: &mut ProcFs,
    medium: &mut dyn Medium,
    reach: Reach,
    known: &mut Known,
    is_anothers: &mut dyn FnMut(ThreadId) -> bool,
) -> Result<Vec<Touched>, LinuxError> {
    let families = families(replay);
    let since = families.values().flat_map(|family| [family.cpus.since, family.class.since]);
    let Some(earliest) = since.flatten().min() else { return Ok(Vec::new()) };
    let (pids, processes) = processes(proc, reach, families.keys().copied(), known)?;
    let mut sweep = Sweep { families, processes, medium };
    let mut touched = Vec::new();
    let mut tids = Vec::new();
    for pid in pids {
        let line = sweep.line(pid);
        let mut from = sweep.families_in(&line);
        if from.is_empty() && sweep.processes[&pid].start >= earliest {
            from = sweep.families_of_orphan(pid);
        }
        if from.is_empty() {
            continue;
        }
        tids.clear();
        proc.threads(pid, &mut tids)?;
        for &tid in &tids {
            let Some(stat) = proc.stat(pid, tid)?.filter(|stat| stat.start >= earliest) else { continue };
            let id = ThreadId { tid, start: stat.start };
            for sort in [Sort::Cpus, Sort::Class] {
                let place = sort.place(id);
                if replay.entry(&place).is_none()
                    && let Some(found) = sweep.put_right(place, sort, id, &from, &line)?
                    && !is_anothers(id)
                {
                    known.found.insert(pid);
                    touched.push(found);
                }
            }
        }
    }
    Ok(touched)
}

impl Sort {
    fn place(self, thread: ThreadId) -> Place {
        match self {
            Sort::Cpus => Place::Affinity(thread),
            Sort::Class => Place::Class(thread),
        }
    }

    fn of(self, family: &Family) -> &Values {
        match self {
            Sort::Cpus => &family.cpus,
            Sort::Class => &family.class,
        }
    }
}

impl Sweep<'_> {
    /// The process, its parent, and so on.
    fn line(&self, pid: i32) -> Vec<i32> {
        let mut line = vec![pid];
        while let Some(process) = line.last().and_then(|last| self.processes.get(last)) {
            // Numbers that are reused while they are read could make a circle.
            if !self.processes.contains_key(&process.parent) || line.contains(&process.parent) {
                break;
            }
            line.push(process.parent);
        }
        line
    }

    fn family(&self, pid: i32) -> Option<&Family> {
        let process = self.processes.get(&pid)?;
        self.families.get(&pid).filter(|family| process.start <= family.oldest)
    }

    /// The processes of a line that are in the journal.
    fn families_in(&self, line: &[i32]) -> Vec<i32> {
        line.iter().copied().filter(|pid| self.family(*pid).is_some()).collect()
    }

    /// The processes in the journal from which a process may descend whose own parent died: those of its session. A
    /// process whose parent lives descends from none of them.
    ///
    /// An orphan's new parent looks like its parent: process 1, the guardian (if it keeps orphans), or any other that
    /// asked for them (`PR_SET_CHILD_SUBREAPER`: a container's or a session's supervisor). The last is distinguished from a
    /// parent by the session, or within one session by the process group, which children inherit from their parent. In
    /// a container, a session (and a group) that began outside has number 0, and is treated like the others.
    fn families_of_orphan(&self, pid: i32) -> Vec<i32> {
        let process = &self.processes[&pid];
        let (parent, session) = (process.parent, process.session);
        // A process that made a session of its own leads it, and leads its group.
        let other_session = pid != session && self.processes.get(&parent).is_none_or(|p| p.session != session);
        let taken_in = parent <= 1 || parent == std::process::id() as i32 || other_session;
        let related = |family: &Family| family.session == session && (taken_in || family.group == process.group);
        self.families.iter().filter(|(_, family)| related(family)).map(|(pid, _)| *pid).collect()
    }

    /// The value to restore, if a thread inherited its value from one of these families.
    fn put_right(
        &mut self,
        place: Place,
        sort: Sort,
        thread: ThreadId,
        from: &[i32],
        line: &[i32],
    ) -> Result<Option<Touched>, LinuxError> {
        let families = || from.iter().filter_map(|pid| self.families.get(pid));
        if families().filter_map(|family| sort.of(family).since).min().is_none_or(|since| thread.start < since) {
            return Ok(None);
        }
        let Some(now) = self.medium.read(&place)? else { return Ok(None) };
        let ours = |family: &&Family| sort.of(family).written.iter().any(|written| same(&now, written));
        let Some(workload) = families().find(ours).map(|family| family.workload) else { return Ok(None) };
        let usual = families().filter(ours).find_map(|family| sort.of(family).usual().cloned());
        // An orphan's line says nothing; its family's does.
        let family = families().position(|family| ours(&family)).map(|at| self.line(from[at])).unwrap_or_default();
        let is_first = line.first() == Some(&thread.tid);
        let origin = match self.origin_of_first(&line[usize::from(is_first)..], sort)? {
            Some(origin) => Some(origin),
            None => self.origin_of_first(&family, sort)?.or(usual),
        };
        let origin = origin.filter(|origin| !same(&now, origin));
        Ok(origin.map(|origin| Touched { workload, place, origin, last: now }))
    }

    /// Original value of the first thread of the first process of a line; None if it is unknown.
    fn origin_of_first(&mut self, line: &[i32], sort: Sort) -> Result<Option<Value>, LinuxError> {
        for at in 0..line.len() {
            if let Some(first) = self.family(line[at]).and_then(|family| sort.of(family).first.as_ref()) {
                return Ok(Some(first.clone()));
            }
            let since = line[at..].iter().filter_map(|pid| sort.of(self.family(*pid)?).since).min();
            let Some(start) = self.processes.get(&line[at]).map(|process| process.start) else { continue };
            match since {
                // Created under Quell and not written since: it has its own parent's value.
                Some(since) if start >= since => {}
                // Quell never wrote there, or not before it was created, and it is not in the journal: it has its
                // original value.
                Some(_) => return self.medium.read(&sort.place(ThreadId { tid: line[at], start })),
                None => return Ok(None),
            }
        }
        Ok(None)
    }
}

impl Values {
    /// The most frequent original value.
    fn usual(&self) -> Option<&Value> {
        self.origins.iter().max_by_key(|(_, count)| *count).map(|(value, _)| value)
    }

    fn add(&mut self, since: u64, is_first: bool, origin: &Value, written: [&Value; 2]) {
        self.since = Some(self.since.map_or(since, |known| known.min(since)));
        if is_first {
            self.first = Some(origin.clone());
        }
        match self.origins.iter_mut().find(|(known, _)| known == origin) {
            Some((_, count)) => *count += 1,
            None => self.origins.push((origin.clone(), 1)),
        }
        for value in written {
            self.remember(value.clone());
            if let Value::Class(class) = value
                && class.reset_on_fork
            {
                // Children of a real-time thread of Quell's start as ordinary ones, with nice 0.
                self.remember(Value::Class(ThreadClass { class: SchedClass::NORMAL, reset_on_fork: false }));
            }
        }
    }

    fn remember(&mut self, value: Value) {
        if !self.written.contains(&value) {
            self.written.push(value);
        }
    }
}

fn families(replay: &Replay) -> BTreeMap<i32, Family> {
    let mut families: BTreeMap<i32, Family> = BTreeMap::new();
    for entry in replay.entries() {
        let (Place::Affinity(thread) | Place::Class(thread)) = entry.place else { continue };
        let Some(owner) = entry.owner else { continue };
        let family = families.entry(owner.pid).or_insert_with(|| Family {
            workload: entry.workload,
            group: owner.group,
            session: owner.session,
            oldest: thread.start,
            cpus: Values::default(),
            class: Values::default(),
        });
        family.oldest = family.oldest.min(thread.start);
        let values = if matches!(entry.place, Place::Affinity(_)) { &mut family.cpus } else { &mut family.class };
        values.add(entry.since, thread.tid == owner.pid, &entry.origin, [&entry.last, &entry.before_last]);
    }
    families
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Owner, Record};
    use quell_linux::write::{Write, Written};

    /// Threads with classes, and nothing else.
    #[derive(Debug, Default)]
    struct Classes(HashMap<ThreadId, SchedClass>);

    impl Medium for Classes {
        fn read(&mut self, place: &Place) -> Result<Option<Value>, LinuxError> {
            let Place::Class(thread) = place else { return Ok(None) };
            Ok(self.0.get(thread).map(|class| value(*class)))
        }

        fn write(&mut self, _: &Place, _: &Value) -> Result<Written, LinuxError> {
            Ok(Written::Vanished)
        }
    }

    fn value(class: SchedClass) -> Value {
        Value::Class(ThreadClass { class, reset_on_fork: false })
    }

    const NICE: SchedClass = SchedClass::Fair { nice: 5, slice: None };

    fn id(tid: i32, start: u64) -> ThreadId {
        ThreadId { tid, start }
    }

    /// Process 10 is from before Quell, which wrote SCHED_IDLE on these of its threads at tick 100.
    fn sweep<'a>(written: &[(ThreadId, SchedClass)], classes: &'a mut Classes) -> Sweep<'a> {
        let mut replay = Replay::default();
        for (n, (thread, origin)) in written.iter().enumerate() {
            let (origin, after) = (value(*origin), value(SchedClass::Idle));
            let write =
                Write { workload: None, place: Place::Class(*thread), origin: origin.clone(), before: origin, after };
            let owner = Some(Owner { pid: 10, group: 6, session: 7 });
            replay.read(Record::Write { n: n as u64, at: 100, write, owner, inode: None });
        }
        let process = |parent, start| Process { parent, group: 6, session: 7, start, is_dead: false };
        let mut processes =
            HashMap::from([(1, process(0, 0)), (10, process(1, 50)), (20, process(10, 120)), (30, process(20, 130))]);
        processes.insert(2, Process { parent: 1, group: 2, session: 2, start: 10, is_dead: false });
        processes.insert(3, Process { parent: 1, group: 3, session: 7, start: 10, is_dead: false });
        Sweep { families: families(&replay), processes, medium: classes }
    }

    fn found(sweep: &mut Sweep<'_>, pid: i32, thread: ThreadId) -> Option<Value> {
        sweep.medium.read(&Place::Class(thread)).unwrap()?;
        let line = sweep.line(pid);
        let from = sweep.families_in(&line);
        sweep.put_right(Place::Class(thread), Sort::Class, thread, &from, &line).unwrap().map(|touched| touched.origin)
    }

    #[test]
    fn only_the_young_with_exactly_our_value_inherited_it() {
        let idle = SchedClass::Idle;
        let young = [(id(11, 110), idle), (id(12, 110), SchedClass::Batch { nice: 0 }), (id(13, 60), idle)];
        let mut classes = Classes(young.into());
        let mut sweep = sweep(&[(id(10, 50), SchedClass::NORMAL)], &mut classes);
        assert_eq!(found(&mut sweep, 10, id(11, 110)), Some(value(SchedClass::NORMAL)));
        assert_eq!(found(&mut sweep, 10, id(12, 110)), None, "its own choice");
        assert_eq!(found(&mut sweep, 10, id(13, 60)), None, "it was there before Quell");
    }

    #[test]
    fn children_and_grandchildren_get_what_the_first_thread_had() {
        let idle = SchedClass::Idle;
        let mut classes = Classes([(id(20, 120), idle), (id(21, 125), idle), (id(30, 130), idle)].into());
        let written = [(id(15, 55), NICE), (id(10, 50), SchedClass::NORMAL), (id(16, 56), NICE)];
        let mut sweep = sweep(&written, &mut classes);
        for (pid, thread) in [(20, id(20, 120)), (20, id(21, 125)), (30, id(30, 130))] {
            assert_eq!(found(&mut sweep, pid, thread), Some(value(SchedClass::NORMAL)), "{thread:?}");
        }
    }

    #[test]
    fn orphans_are_known_by_their_session_whoever_took_them_in() {
        let mut classes = Classes::default();
        let mut sweep = sweep(&[(id(10, 50), SchedClass::NORMAL)], &mut classes);
        let mut families = |parent, group, session| {
            sweep.processes.insert(40, Process { parent, group, session, start: 140, is_dead: false });
            sweep.families_of_orphan(40)
        };
        assert_eq!(families(1, 40, 7), [10], "process 1 took it in");
        assert_eq!(families(2, 40, 7), [10], "a supervisor in another session did");
        assert_eq!(families(3, 6, 7), [10], "a supervisor in the same session did");
        assert_eq!(families(3, 40, 7), [0; 0], "another job of the same shell");
        assert_eq!(families(1, 6, 8), [0; 0], "another session");
        assert_eq!(families(2, 40, 40), [0; 0], "it leads a session of its own");
    }

    #[test]
    fn a_session_from_outside_of_the_container_is_one_like_the_others() {
        let mut classes = Classes::default();
        let mut sweep = sweep(&[(id(10, 50), SchedClass::NORMAL)], &mut classes);
        let family = sweep.families.get_mut(&10).unwrap();
        (family.group, family.session) = (0, 0);
        let mut families = |parent, group, session| {
            sweep.processes.insert(40, Process { parent, group, session, start: 140, is_dead: false });
            sweep.families_of_orphan(40)
        };
        assert_eq!(families(1, 0, 0), [10], "process 1 took it in");
        assert_eq!(families(2, 0, 0), [10], "a supervisor in the container did");
        assert_eq!(families(1, 6, 7), [0; 0], "another session");
    }

    #[test]
    fn a_first_thread_that_quell_never_wrote_is_as_it_was() {
        // Quell made the nice thread alone ordinary (here: idle); the first thread was idle by itself.
        let idle = SchedClass::Idle;
        let mut classes = Classes([(id(10, 50), idle), (id(11, 110), idle), (id(20, 120), idle)].into());
        let mut sweep = sweep(&[(id(15, 55), NICE)], &mut classes);
        assert_eq!(found(&mut sweep, 10, id(11, 110)), None);
        assert_eq!(found(&mut sweep, 20, id(20, 120)), None);
    }
}
