//! Restores what a journal says: only places that still have Quell's value.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quell_linux::procfs::ProcFs;
use quell_linux::sched::{Kernel, ThreadCalls};
use quell_linux::write::{Left, Machine, Medium, Place, Touched, Write};
use quell_linux::{HostOptions, LinuxError, LinuxHost, Roots};
use quell_model::{Nanos, ThreadId, amount};
use serde::{Deserialize, Serialize};

use super::processes::{Known, Reach};
use super::sweep;
use crate::AgentError;
use crate::journal::file::inode_of;
use crate::journal::owner::boot_id;
use crate::journal::record::{Newer, newer};
use crate::journal::replay::same;
use crate::journal::{Entry, Others, Replay, replay};
use crate::realtime::Sentry;

/// Number of passes that retry what the system refused and look for threads that were being created meanwhile.
const PASSES: usize = 60;
/// A thread that was being created when its parent was restored has the old value, and appears only when its parent has
/// had a CPU again: number of passes without a new one …
const QUIET: usize = 8;
/// … with this pause between passes.
const BIRTH: Duration = Duration::from_millis(25);
/// All of the machine is looked at when nothing is left among the processes in the journal and their children, for orphans, and
/// once more at the end; at most so often, where each finds something.
const WIDE: usize = 4;
/// A machine that cannot be read is tried this often …
const TRIES: u32 = 10;
/// … with this pause between tries.
const UNTIL_NEXT_TRY: Duration = Duration::from_millis(100);

/// The remark about a journal of another boot.
const EARLIER_BOOT: &str = "the journal is from an earlier boot, of which no setting is left";

/// Outcome for the places in a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Put back.
    pub restored: Vec<Write>,
    /// Of those: threads that were in no journal and had inherited a value.
    pub swept: usize,
    /// Gone in the meantime.
    pub vanished: usize,
    /// Not restored: another program changed them since, or the system refused.
    pub left: Vec<Left>,
    /// Duration.
    pub took: Nanos,
    /// A remark about the journal itself.
    pub remark: Option<String>,
}

impl Report {
    /// In one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = format!("put back {} in {}", amount(self.restored.len(), "value", "values"), self.took);
        let mut add = |count: usize, what: &str| {
            if count > 0 {
                text.push_str(&format!(", {count} {what}"));
            }
        };
        add(self.swept, "of them on threads that inherited a value");
        add(self.vanished, "gone meanwhile");
        add(self.left.len(), "left as they are");
        if let Some(remark) = &self.remark {
            text.push_str(&format!(" ({remark})"));
        }
        text
    }

    /// Adds another report to this one.
    pub fn add(&mut self, other: Report) {
        self.restored.extend(other.restored);
        self.left.extend(other.left);
        self.swept += other.swept;
        self.vanished += other.vanished;
        self.took += other.took;
        self.remark = self.remark.take().or(other.remark);
    }
}

/// The machine whose settings are put back.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its pseudo-filesystems.
    pub roots: Roots,
    /// The calls that its threads obey.
    pub calls: fn() -> Result<Box<dyn ThreadCalls>, LinuxError>,
}

impl Default for Site {
    /// The running machine.
    fn default() -> Site {
        Site { roots: Roots::default(), calls: || Ok(Box::new(Kernel::new()?)) }
    }
}

/// The journal of what is written in pods' cgroups, beside this one. Its name does not end as a journal's: it has no claim of its own.
pub(super) fn pods_journal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".pods");
    name.into()
}

/// The journal that this one is beside; itself, where it is none of pods.
pub(super) fn main_journal(path: &Path) -> PathBuf {
    if path.extension().is_some_and(|end| end == "pods") { path.with_extension("") } else { path.to_owned() }
}

/// Restores what the journal in this file says, and that of pods beside it, and removes both. No file: nothing to restore. Calls
/// `alive` repeatedly meanwhile.
///
/// # Errors
/// If a journal or the machine cannot be read at all; it then stays.
pub fn put_back_journal(path: &Path, site: &Site, alive: &mut dyn FnMut()) -> Result<Report, AgentError> {
    let pods = put_back_one(&pods_journal(path), site, alive);
    // By the name of this one both are found.
    let put_back = if pods.is_ok() { put_back_one } else { put_back_file };
    let mut report = put_back(path, site, alive)?;
    report.add(pods?);
    Ok(report)
}

fn put_back_one(path: &Path, site: &Site, alive: &mut dyn FnMut()) -> Result<Report, AgentError> {
    let report = put_back_file(path, site, alive)?;
    match fs::remove_file(path) {
        Ok(()) => Ok(report),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(report),
        Err(source) => Err(AgentError::Journal { path: path.to_owned(), source }),
    }
}

/// Restores what the journal in this file says, and keeps the file: its writer may not have ended yet.
pub(super) fn put_back_meanwhile(path: &Path, site: &Site, alive: &mut dyn FnMut()) -> Result<Report, AgentError> {
    let mut report = put_back_file(path, site, alive)?;
    report.add(put_back_file(&pods_journal(path), site, alive)?);
    Ok(report)
}

fn put_back_file(path: &Path, site: &Site, alive: &mut dyn FnMut()) -> Result<Report, AgentError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Report::default()),
        Err(source) => return Err(AgentError::Journal { path: path.to_owned(), source }),
    };
    if let Some(newer) = newer(&bytes) {
        if newer.boot != boot_id(&site.roots.proc) {
            return Ok(Report { remark: Some(EARLIER_BOOT.into()), ..Report::default() });
        }
        let Newer { version, program, .. } = newer;
        return Err(AgentError::NewerJournal { path: path.to_owned(), version, program });
    }
    let state = replay(&bytes);
    let _sentry = Sentry::beside_or_ordinary();
    let mut report = if state.is_empty() { Report::default() } else { insist(&state, path, site, alive)? };
    if state.broken > 0 {
        report.remark.get_or_insert(format!("{} torn or broken lines in the journal", state.broken));
    }
    Ok(report)
}

/// As [`put_back`]: what the machine refuses, memory or a descriptor, it may give in a moment.
fn insist(state: &Replay, path: &Path, site: &Site, alive: &mut dyn FnMut()) -> Result<Report, AgentError> {
    let mut others = Others::beside(path);
    let mut is_anothers = |thread| others.as_mut().is_some_and(|others| others.owner(thread).is_some());
    for _ in 1..TRIES {
        match put_back(state, &site.roots, &site.calls, &mut is_anothers, alive) {
            Ok(report) => return Ok(report),
            Err(_) => std::thread::sleep(UNTIL_NEXT_TRY),
        }
    }
    put_back(state, &site.roots, &site.calls, &mut is_anothers, alive)
}

/// Restores what a journal says, on a machine whose threads obey these calls; threads that another Quell has keep what they
/// inherited. Calls `alive` before each pass over the machine: many passes can take longer than a watchdog waits.
///
/// # Errors
/// If the machine cannot be read at all.
pub fn put_back(
    state: &Replay,
    roots: &Roots,
    calls: &dyn Fn() -> Result<Box<dyn ThreadCalls>, LinuxError>,
    is_anothers: &mut dyn FnMut(ThreadId) -> bool,
    alive: &mut dyn FnMut(),
) -> Result<Report, AgentError> {
    let begun = Instant::now();
    let mut report = Report::default();
    let boot = boot_id(&roots.proc);
    if state.begin.as_ref().is_some_and(|begin| begin.boot != boot) {
        report.remark = Some(EARLIER_BOOT.into());
        return Ok(report);
    }
    let failed = |error: LinuxError| AgentError::Host(error.to_string());
    let options = HostOptions { partitions: true, preemption_mode: true, ..HostOptions::default() };
    let mut host = LinuxHost::with_calls(roots.clone(), options, calls().map_err(failed)?).map_err(failed)?;
    let mut proc = ProcFs::open(&roots.proc).map_err(failed)?;
    let mut machine = Machine::new(ProcFs::open(&roots.proc).map_err(failed)?, calls().map_err(failed)?);

    let mut due: Vec<Touched> = Vec::new();
    for entry in state.entries().filter(|entry| !entry.is_closed()) {
        if is_another(entry) {
            report.vanished += 1;
            continue;
        }
        let now = machine.read(&entry.place).ok().flatten();
        due.push(entry.touched(now.as_ref()));
    }
    let (mut quiet, mut wide, mut known) = (0, 0, Known::default());
    for pass in 0..PASSES {
        alive();
        let count = due.len();
        // Classes first: a thread that may not be moved just now (migrate_disable) delays a change of its CPUs, without
        // end if it is SCHED_IDLE on a busy CPU.
        let (cpus, first): (Vec<_>, Vec<_>) =
            std::mem::take(&mut due).into_iter().partition(|touched| matches!(touched.place, Place::Affinity(_)));
        let (mut left, first) = apply(&mut host, first, &mut report);
        let (left_cpus, second) = apply(&mut host, cpus, &mut report);
        left.extend(left_cpus);
        let swept = first + second;
        due.extend(retry(left, &mut machine, &mut report, pass + 1 == PASSES));
        if pass > 0 {
            report.swept += swept;
        }
        let mut sweep = |reach| sweep::inherited(state, &mut proc, &mut machine, reach, &mut known, is_anothers);
        due.extend(sweep(Reach::Families).map_err(failed)?);
        quiet = if due.is_empty() { quiet + 1 } else { 0 };
        // Orphans as soon as the others are back, and once more last; also where something is refused to the end.
        let last = quiet >= QUIET || pass + 2 == PASSES;
        if last && wide >= WIDE {
            break;
        }
        if last || wide == 0 && quiet == 1 {
            alive();
            due.extend(sweep(Reach::Machine).map_err(failed)?);
            wide += 1;
            match (due.is_empty(), last) {
                (true, true) => break,
                (true, false) => {}
                (false, _) => quiet = 0,
            }
        }
        if due.is_empty() || due.len() == count {
            std::thread::sleep(BIRTH);
        }
    }
    report.took = begun.elapsed().into();
    Ok(report)
}

/// Restores these; returns those that were left, with Quell's value, and the number of restored ones.
fn apply(host: &mut LinuxHost, due: Vec<Touched>, report: &mut Report) -> (Vec<(Left, Touched)>, usize) {
    if due.is_empty() {
        return (Vec::new(), 0);
    }
    let mut by_place: HashMap<Place, Touched> = HashMap::new();
    for touched in &due {
        by_place.insert(touched.place.clone(), touched.clone());
    }
    host.adopt(due);
    let done = host.restore();
    let restored = done.restored.len();
    report.restored.extend(done.restored);
    report.vanished += done.vanished;
    let left = done.left.into_iter().filter_map(|left| Some((left.clone(), by_place.remove(&left.place)?))).collect();
    (left, restored)
}

/// A place that still has Quell's value was refused, perhaps only until another one has been restored.
fn retry(left: Vec<(Left, Touched)>, machine: &mut Machine, report: &mut Report, give_up: bool) -> Vec<Touched> {
    let mut again = Vec::new();
    for (left, touched) in left {
        let ours = machine.read(&touched.place).ok().flatten().is_some_and(|now| same(&now, &touched.last));
        if ours && !give_up && !report.left.iter().any(|known| known.place == left.place) {
            again.push(touched);
        } else {
            report.left.push(left);
        }
    }
    again
}

/// Is the file in a cgroup that was removed and made again?
fn is_another(entry: &Entry) -> bool {
    let directory = match &entry.place {
        Place::File(path) => path.parent(),
        Place::Controllers(group) => Some(group.as_path()),
        _ => None,
    };
    match (directory, entry.inode) {
        (Some(directory), Some(inode)) => inode_of(directory) != Some(inode),
        _ => false,
    }
}
