//! Threads that were born under a value of Quell's.
//!
//! A new thread has its parent's CPUs and (unless it was real-time) its class. One that was born between the host's
//! last scan and Quell's death stands in no journal: it is found as a thread of a process in the journal, of a
//! descendant of one, or of an orphan of its session, that is younger than Quell's first write there and has exactly a
//! value that Quell wrote. It gets what its process's first thread had before. (Linux does not tell which of several
//! threads with different values was the parent.)

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use quell_linux::LinuxError;
use quell_linux::procfs::ProcFs;
use quell_linux::sched::ThreadClass;
use quell_linux::write::{Medium, Place, Touched, Value};
use quell_model::{SchedClass, ThreadId, WorkloadId};

use crate::journal::Replay;
use crate::journal::replay::same;

/// What Quell wrote on the threads of one process.
#[derive(Debug)]
struct Family {
    workload: Option<WorkloadId>,
    session: i32,
    /// The start of its oldest thread in the journal: a process that began later only has the same number.
    oldest: u64,
    cpus: Kind,
    class: Kind,
}

/// The values of one kind of place.
#[derive(Debug, Default)]
struct Kind {
    /// When Quell first wrote one.
    since: Option<u64>,
    /// What the process's first thread had before; else what the first thread in the journal had.
    origin: Option<Value>,
    origin_is_first: bool,
    written: Vec<Value>,
}

impl Kind {
    /// The value to put back for a thread that was born then and has this value now, if it inherited it.
    fn inherited(&self, born: u64, now: &Value) -> Option<Value> {
        let origin = self.origin.as_ref()?;
        let under = born >= self.since?;
        let ours = !same(now, origin) && self.written.iter().any(|written| same(now, written));
        (under && ours).then(|| origin.clone())
    }
}

struct Process {
    parent: i32,
    start: u64,
}

/// What is to be put back on threads that stand in no journal.
///
/// # Errors
/// If the processes cannot be read.
pub(super) fn inherited(
    replay: &Replay,
    proc: &mut ProcFs,
    medium: &mut dyn Medium,
) -> Result<Vec<Touched>, LinuxError> {
    let families = families(replay);
    let Some(earliest) = families.values().filter_map(|family| family.cpus.since.min_some(family.class.since)).min()
    else {
        return Ok(Vec::new());
    };
    let processes = processes(proc)?;
    let mut touched = Vec::new();
    let mut tids = Vec::new();
    for (&pid, process) in &processes {
        let family = family_of(pid, &processes, &families).or_else(|| {
            (process.start >= earliest).then(|| orphan(pid, process, proc.root(), &processes, &families)).flatten()
        });
        let Some(family) = family else { continue };
        tids.clear();
        proc.threads(pid, &mut tids)?;
        for &tid in &tids {
            let Some(stat) = proc.stat(pid, tid)? else { continue };
            if stat.start < earliest {
                continue;
            }
            let id = ThreadId { tid, start: stat.start };
            for (kind, place) in [(&family.cpus, Place::Affinity(id)), (&family.class, Place::Class(id))] {
                if kind.since.is_none() || replay.entry(&place).is_some() {
                    continue;
                }
                let Some(now) = medium.read(&place)? else { continue };
                if let Some(origin) = kind.inherited(stat.start, &now) {
                    touched.push(Touched { workload: family.workload, place, origin, last: now });
                }
            }
        }
    }
    Ok(touched)
}

trait MinSome {
    fn min_some(self, other: Self) -> Self;
}

impl MinSome for Option<u64> {
    /// The smaller of those that are there.
    fn min_some(self, other: Option<u64>) -> Option<u64> {
        self.into_iter().chain(other).min()
    }
}

fn families(replay: &Replay) -> BTreeMap<i32, Family> {
    let mut families: BTreeMap<i32, Family> = BTreeMap::new();
    for entry in replay.entries() {
        let (Place::Affinity(thread) | Place::Class(thread)) = entry.place else { continue };
        let Some(owner) = entry.owner else { continue };
        let family = families.entry(owner.pid).or_insert_with(|| Family {
            workload: entry.workload,
            session: owner.session,
            oldest: thread.start,
            cpus: Kind::default(),
            class: Kind::default(),
        });
        family.oldest = family.oldest.min(thread.start);
        let is_first = thread.tid == owner.pid;
        let kind = if matches!(entry.place, Place::Affinity(_)) { &mut family.cpus } else { &mut family.class };
        kind.since = kind.since.min_some(Some(entry.since));
        if kind.origin.is_none() || (is_first && !kind.origin_is_first) {
            kind.origin = Some(entry.origin.clone());
            kind.origin_is_first = is_first;
        }
        for value in [&entry.last, &entry.before_last] {
            kind.written.push(value.clone());
            if let Value::Class(class) = value
                && class.reset_on_fork
            {
                // Children of a real-time thread of Quell's are born as ordinary ones, with nice 0.
                kind.written.push(Value::Class(ThreadClass { class: SchedClass::NORMAL, reset_on_fork: false }));
            }
        }
    }
    families
}

fn processes(proc: &mut ProcFs) -> Result<HashMap<i32, Process>, LinuxError> {
    let mut pids = Vec::new();
    proc.pids(&mut pids)?;
    let mut processes = HashMap::with_capacity(pids.len());
    for pid in pids {
        if let Some(stat) = proc.stat(pid, pid)? {
            processes.insert(pid, Process { parent: stat.parent, start: stat.start });
        }
    }
    Ok(processes)
}

/// The family of a process: its own, or the closest ancestor's.
fn family_of<'a>(
    pid: i32,
    processes: &HashMap<i32, Process>,
    families: &'a BTreeMap<i32, Family>,
) -> Option<&'a Family> {
    let mut at = pid;
    // A process tree is not this deep; numbers that are reused while it is read could make a circle.
    for _ in 0..1000 {
        let process = processes.get(&at)?;
        if let Some(family) = families.get(&at).filter(|family| process.start <= family.oldest) {
            return Some(family);
        }
        at = process.parent;
    }
    None
}

/// The family of a process whose parent died: one of the same session.
fn orphan<'a>(
    pid: i32,
    process: &Process,
    proc: &Path,
    processes: &HashMap<i32, Process>,
    families: &'a BTreeMap<i32, Family>,
) -> Option<&'a Family> {
    // Orphans go to process 1, or to an ancestor that asked for them: to nobody younger than they are.
    let adopted =
        process.parent == 1 || processes.get(&process.parent).is_some_and(|parent| parent.start < process.start);
    let session = session(proc, pid).filter(|session| adopted && *session != 0)?;
    families.values().find(|family| family.session == session)
}

fn session(proc: &Path, pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(proc.join(format!("{pid}/stat"))).ok()?;
    // Field 6; the name in field 2 may hold spaces and parentheses.
    stat.rsplit_once(") ")?.1.split(' ').nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(class: SchedClass) -> Value {
        Value::Class(ThreadClass { class, reset_on_fork: false })
    }

    #[test]
    fn only_the_young_with_exactly_our_value_inherited_it() {
        let kind = Kind {
            since: Some(10),
            origin: Some(class(SchedClass::NORMAL)),
            origin_is_first: true,
            written: vec![class(SchedClass::Idle)],
        };
        let idle = class(SchedClass::Idle);
        assert_eq!(kind.inherited(10, &idle), Some(class(SchedClass::NORMAL)));
        assert_eq!(kind.inherited(9, &idle), None, "it was there before Quell");
        assert_eq!(kind.inherited(11, &class(SchedClass::Batch { nice: 0 })), None, "its own choice");
        assert_eq!(kind.inherited(11, &class(SchedClass::NORMAL)), None);
    }
}
