//! Lock files that count only while a living Quell holds them.
//!
//! flock(2) needs no write access: any user who may open a file can keep its lock. So the file is its user's alone (0600),
//! and it names the processes that hold it: one that is locked by another process, opened before it was narrowed, does not
//! count.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use quell_linux::procfs::ProcFs;
use quell_model::ThreadState;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// Access for other users.
const OTHERS: u32 = 0o077;
/// A lock names at most two processes.
const LONGEST: usize = 256;

/// What is known of the holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// No living Quell holds it, whatever process does.
    None,
    /// A living Quell of root or of the file's owner: this process.
    Lives(i32),
    /// It cannot be decided, for this reason.
    Unclear(String),
}

/// A process that a lock names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    pid: i32,
    /// `None`: an earlier version wrote it.
    start: Option<u64>,
    /// Inode of its pid namespace.
    namespace: Option<u64>,
}

/// Opens a lock file, which no other user may open from now on; it is made if it is not there.
///
/// # Errors
/// If it cannot be opened, is not this user's, or cannot be narrowed.
pub fn open(path: &Path) -> io::Result<File> {
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(no_link)
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it is not owned by this user"));
    }
    if found.mode() & OTHERS != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Takes the lock if it is free.
///
/// # Errors
/// If the system has no lock to give.
pub fn try_take(lock: &File) -> io::Result<bool> {
    match flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Does another open file have the lock? The test lasts a moment, and two of them do not disturb each other.
pub(crate) fn is_taken(lock: &File) -> bool {
    let probed = flock(lock, FlockOperation::NonBlockingLockShared);
    let _ = flock(lock, FlockOperation::Unlock);
    probed == Err(Errno::WOULDBLOCK)
}

/// Writes this process into the lock as its holder, after `first`, the one that took it, if that is another.
///
/// # Errors
/// If it cannot be written.
pub fn sign(lock: &File, proc: &Path, first: Option<i32>) -> io::Result<()> {
    let pids = first.into_iter().chain([std::process::id().cast_signed()]);
    write(lock, &pids.map(|pid| signature(proc, pid)).collect::<String>())
}

/// The line by which a lock names a process.
pub(crate) fn signature(proc: &Path, pid: i32) -> String {
    let start = seen(proc, pid).map_or(0, |process| process.start);
    format!("{pid} {start} {}\n", namespace(proc).unwrap_or(0))
}

/// Writes the whole text of a lock.
pub(crate) fn write(lock: &File, text: &str) -> io::Result<()> {
    lock.write_all_at(text.as_bytes(), 0)?;
    lock.set_len(text.len() as u64)
}

/// The holder of a lock that is taken, as far as the file says. Only its user can have written it.
#[must_use]
pub fn holder(lock: &File, proc: &Path) -> Holder {
    let mut bytes = [0; LONGEST];
    let length = lock.read_at(&mut bytes, 0).unwrap_or(0);
    let Ok(found) = lock.metadata() else { return Holder::Unclear("its owner cannot be determined".into()) };
    let named: Vec<Named> = String::from_utf8_lossy(&bytes[..length]).lines().filter_map(Named::parse).collect();
    judge(&named, namespace(proc), |named| named.lives(proc, found.uid())).unwrap_or_else(|| listed(&found, proc))
}

/// Does a living Quell hold the lock at this path? For those too who may not open it. No file: no.
#[must_use]
pub fn is_watched(path: &Path, proc: &Path) -> bool {
    match File::open(path) {
        Ok(lock) => is_taken(&lock) && holder(&lock, proc) != Holder::None,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(_) => fs::metadata(path).is_ok_and(|found| matches!(listed(&found, proc), Holder::Lives(_))),
    }
}

/// Does a process of root or of its owner hold this lock, which names none? True where that cannot be decided.
#[must_use]
pub fn is_held_by_its_user(lock: &File, proc: &Path) -> bool {
    lock.metadata().map_or(true, |found| listed(&found, proc) != Holder::None)
}

/// `None`: it names no process.
fn judge(named: &[Named], here: Option<u64>, lives: impl Fn(&Named) -> bool) -> Option<Holder> {
    if let Some(alive) = named.iter().find(|named| named.is_here(here) && lives(named)) {
        return Some(Holder::Lives(alive.pid));
    }
    match named.iter().find(|named| !named.is_here(here)) {
        Some(far) => Some(Holder::Unclear(format!("it names process {} in another pid namespace", far.pid))),
        None => (!named.is_empty()).then_some(Holder::None),
    }
}

/// The holder by /proc/locks, which lists the locks of the processes of this pid namespace.
fn listed(lock: &fs::Metadata, proc: &Path) -> Holder {
    let text = fs::read_to_string(proc.join("locks")).unwrap_or_default();
    let device = lock.dev();
    let file = format!("{:02x}:{:02x}:{}", rustix::fs::major(device), rustix::fs::minor(device), lock.ino());
    let holders: Vec<i32> = text.lines().filter_map(|line| locker(line, &file)).collect();
    let is_own = |pid: &&i32| user(proc, **pid).is_none_or(|user| user == 0 || user == lock.uid());
    match holders.iter().find(is_own) {
        Some(pid) => Holder::Lives(*pid),
        None if holders.is_empty() => Holder::Unclear("it names no process, and /proc/locks has none".into()),
        None => Holder::None,
    }
}

/// The process of a line of proc_locks(5), `1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF`, if it is of this file; one
/// that waits for a lock (`->`) has none.
fn locker(line: &str, file: &str) -> Option<i32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [_, "FLOCK", _, _, pid, at, ..] if at == file => pid.parse().ok(),
        _ => None,
    }
}

impl Named {
    fn parse(line: &str) -> Option<Named> {
        let mut words = line.split_whitespace();
        let pid = words.next()?.parse().ok().filter(|pid| *pid > 0)?;
        Some(Named {
            pid,
            start: words.next().and_then(|start| start.parse().ok()),
            namespace: words.next().and_then(|inode| inode.parse().ok()).filter(|inode| *inode != 0),
        })
    }

    fn is_here(&self, namespace: Option<u64>) -> bool {
        self.namespace.is_none() || namespace.is_none() || self.namespace == namespace
    }

    fn lives(&self, proc: &Path, owner: u32) -> bool {
        let Some(process) = seen(proc, self.pid) else { return false };
        let is_it = match self.start {
            Some(start) => process.start == start,
            None => {
                fs::read_to_string(proc.join(format!("{}/comm", self.pid))).is_ok_and(|comm| comm.trim() == "quell")
            }
        };
        is_it && user(proc, self.pid).is_none_or(|user| user == 0 || user == owner)
    }
}

struct Seen {
    start: u64,
}

/// A process that has not ended: a zombie has closed its files, and holds nothing.
fn seen(proc: &Path, pid: i32) -> Option<Seen> {
    let stat = ProcFs::open(proc).ok()?.stat(pid, pid).ok()??;
    (stat.state != ThreadState::Dead).then_some(Seen { start: stat.start })
}

/// Its effective user; `None`: it may not be read, or it is gone.
fn user(proc: &Path, pid: i32) -> Option<u32> {
    let status = fs::read_to_string(proc.join(format!("{pid}/status"))).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
}

fn namespace(proc: &Path) -> Option<u64> {
    fs::metadata(proc.join("self/ns/pid")).ok().map(|found| found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Option<u64> = Some(7);

    fn named(text: &str) -> Vec<Named> {
        text.lines().filter_map(Named::parse).collect()
    }

    fn judged(text: &str, alive: &[i32]) -> Option<Holder> {
        judge(&named(text), HERE, |named| alive.contains(&named.pid))
    }

    #[test]
    fn a_lock_counts_while_one_of_the_processes_that_it_names_lives() {
        assert_eq!(judged("10 5 7\n11 6 7\n", &[10]), Some(Holder::Lives(10)));
        assert_eq!(judged("10 5 7\n11 6 7\n", &[11]), Some(Holder::Lives(11)), "the worker puts back");
        assert_eq!(judged("10 5 7\n11 6 7\n", &[12]), Some(Holder::None));
        assert_eq!(judged("10\n", &[10]), Some(Holder::Lives(10)), "of an earlier version");
        assert!(matches!(judged("10 5 8\n", &[10]), Some(Holder::Unclear(_))), "of another namespace");
        assert_eq!(judged("", &[]), None);
        assert_eq!(judged("-1\nx\n", &[]), None);
    }

    #[test]
    fn a_process_is_named_by_number_and_start() {
        let proc = Path::new("/proc");
        let own = std::process::id().cast_signed();
        let start = seen(proc, own).unwrap().start;
        let owner = rustix::process::geteuid().as_raw();
        let lives = |start| Named { pid: own, start, namespace: None }.lives(proc, owner);
        assert!(lives(Some(start)) && !lives(Some(start + 1)), "a number that is used again is another process");
        assert!(!lives(None), "this one is no quell");
    }

    #[test]
    fn the_list_of_locks_names_holders_and_no_waiters() {
        let file = "00:1b:33";
        assert_eq!(locker("1: FLOCK  ADVISORY  WRITE 912 00:1b:33 0 EOF", file), Some(912));
        assert_eq!(locker("1: FLOCK  ADVISORY  WRITE 912 00:1b:34 0 EOF", file), None);
        assert_eq!(locker("1: -> FLOCK  ADVISORY  WRITE 912 00:1b:33 0 EOF", file), None);
        assert_eq!(locker("1: POSIX  ADVISORY  READ 912 00:1b:33 0 0", file), None);
    }
}
