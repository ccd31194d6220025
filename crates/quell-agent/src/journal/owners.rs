//! Threads that living Quells have: no two have one thread.
//!
//! Each Quell that changes the machine has a file in one directory, whatever its run directory: `agents` in `/run/quell` for
//! root, which no other user may open, and in the own XDG_RUNTIME_DIR for an ordinary user. The file says which Quell it is,
//! and each thread is a locked byte in it. Guardian and worker have it open: the locks last as long as one of them lives. The
//! file of a Quell that was killed stays until its journal has nothing to put back: what is set on a thread then is not its
//! original value.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use quell_linux::write::Place;
use quell_model::ThreadId;

use super::owner::boot_id;
use super::{Replay, ranges, replay};
use crate::lock;

const PROC: &str = "/proc";
/// Held while a thread is looked for in the others' files and then locked in the own one.
const TURN: &str = ".turn";
/// A directory that changed this lately is listed again: its time is that of a clock tick.
const TICK: Duration = Duration::from_millis(100);
/// The journals of killed Quells are read again after this.
const LEFT_EVERY: Duration = Duration::from_secs(1);
/// Tries to have the turn, which another Quell has for a moment …
const TRIES: u32 = 50;
/// … with this pause in between.
const PAUSE: Duration = Duration::from_millis(1);

/// The threads of this Quell, and the others' files.
#[derive(Debug)]
pub struct Owners {
    directory: PathBuf,
    name: String,
    own: File,
    turn: File,
    others: Vec<Other>,
    listed: Option<(SystemTime, Instant)>,
    threads: BTreeSet<ThreadId>,
}

/// Another Quell.
#[derive(Debug)]
struct Other {
    file: File,
    pid: i32,
    name: String,
    run_dir: PathBuf,
    /// It was killed: what its journal has to put back.
    left: Option<Replay>,
}

impl Owners {
    /// Makes this process known as a Quell. `None`, with a line in the log: there is no place for that, and other Quells do not
    /// know of this one.
    #[must_use]
    pub fn register(run_dir: &Path, claim: &str) -> Option<Owners> {
        let place = place()?;
        let registered = Owners::register_in(&place, run_dir, claim);
        registered.inspect_err(|error| tracing::debug!(%error, "other Quells do not know of this one")).ok()
    }

    fn register_in(directory: &Path, run_dir: &Path, claim: &str) -> io::Result<Owners> {
        own_directory(directory, 0o700)?;
        let run_dir = fs::canonicalize(run_dir)?;
        let name = format!("{}-{claim}", std::process::id());
        // It has its name when it is locked and written: others remove an entry that says nothing.
        let unnamed = directory.join(format!(".{name}"));
        let own = lock::open(&unnamed)?;
        // Others test it for a moment.
        let _ = (0..TRIES).any(|_| lock::try_take(&own).unwrap_or(true) || (std::thread::sleep(PAUSE), false).1);
        let text = format!(
            "{}{claim}\n{}\n",
            lock::signature(PROC.as_ref(), std::process::id().cast_signed()),
            run_dir.display()
        );
        lock::write(&own, &text)?;
        fs::rename(&unnamed, directory.join(&name))?;
        let turn = lock::open(&directory.join(TURN))?;
        let (others, listed, threads) = (Vec::new(), None, BTreeSet::new());
        let mut owners = Owners { directory: directory.to_owned(), name, own, turn, others, listed, threads };
        owners.forget_forerunners(&run_dir, claim);
        // Those that ended without a word go now.
        owners.list()?;
        Ok(owners)
    }

    /// Earlier Quells under the same claim are dead, and what they left is put back.
    fn forget_forerunners(&mut self, run_dir: &Path, claim: &str) {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let suffix = format!("-{claim}");
        for entry in entries.filter(|entry| entry.file_name() != *self.name) {
            let same = entry.file_name().to_str().is_some_and(|name| name.ends_with(&suffix))
                && fs::read_to_string(entry.path())
                    .is_ok_and(|text| text.lines().nth(2).is_some_and(|line| Path::new(line) == run_dir));
            if same {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// The same for a worker, which begins without a thread.
    ///
    /// # Errors
    /// If there is no descriptor to give.
    pub fn for_worker(&self) -> io::Result<Owners> {
        let (own, turn) = (self.own.try_clone()?, lock::open(&self.directory.join(TURN))?);
        ranges::unlock_all(&own);
        let (others, listed, threads) = (Vec::new(), None, BTreeSet::new());
        Ok(Owners { directory: self.directory.clone(), name: self.name.clone(), own, turn, others, listed, threads })
    }

    /// Everything is put back.
    pub fn end(self) {
        let _ = fs::remove_file(self.directory.join(&self.name));
    }

    /// Takes a thread, unless another Quell has it.
    ///
    /// # Errors
    /// That Quell, in words.
    pub fn take(&mut self, thread: ThreadId) -> Result<(), String> {
        if self.threads.contains(&thread) {
            return Ok(());
        }
        // Without the turn two Quells that begin at once could both take it: rather that than a loop that stands still.
        let turn =
            (0..TRIES).any(|_| lock::try_take(&self.turn).unwrap_or(false) || (std::thread::sleep(PAUSE), false).1);
        let taken = match self.owner(thread) {
            Some(by) => Err(by),
            None => {
                if let Err(error) = ranges::lock(&self.own, byte_of(thread)) {
                    tracing::debug!(%error, "other Quells do not know of thread {}", thread.tid);
                }
                self.threads.insert(thread);
                Ok(())
            }
        };
        if turn {
            let _ = rustix::fs::flock(&self.turn, rustix::fs::FlockOperation::Unlock);
        }
        taken
    }

    /// Another Quell that has this thread, in words.
    pub fn owner(&mut self, thread: ThreadId) -> Option<String> {
        if let Err(error) = self.list() {
            tracing::debug!(%error, "other Quells could not be looked at");
        }
        self.others.iter().find(|other| other.has(thread)).map(Other::words)
    }

    /// Those that this Quell has, ascending.
    pub fn threads(&self) -> impl Iterator<Item = ThreadId> {
        self.threads.iter().copied()
    }

    /// Gives these back.
    pub fn release(&mut self, threads: &[ThreadId]) {
        for thread in threads {
            self.threads.remove(thread);
            ranges::unlock(&self.own, byte_of(*thread));
        }
    }

    /// Looks at the directory if it has changed, and at the journals of killed Quells.
    fn list(&mut self) -> io::Result<()> {
        let changed = fs::metadata(&self.directory)?.modified()?;
        let lately = SystemTime::now().duration_since(changed).is_ok_and(|since| since < TICK);
        let left = self.others.iter().any(|other| other.left.is_some());
        let known = |(time, at): (SystemTime, Instant)| time == changed && !(left && at.elapsed() > LEFT_EVERY);
        if !lately && self.listed.is_some_and(known) {
            return Ok(());
        }
        self.others.clear();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_unnamed = name.as_encoded_bytes().starts_with(b".");
            if name == *self.name || name == *TURN || is_unnamed {
                continue;
            }
            match Other::read(&entry.path()) {
                Some(other) => self.others.push(other),
                // It has ended, and left nothing.
                None => drop(fs::remove_file(entry.path())),
            }
        }
        self.listed = Some((fs::metadata(&self.directory)?.modified()?, Instant::now()));
        Ok(())
    }
}

impl Other {
    /// `None`: it does not live, and left nothing to put back.
    fn read(path: &Path) -> Option<Other> {
        let file = lock::open(path).ok()?;
        let text = fs::read_to_string(path).ok()?;
        let mut lines = text.lines();
        let pid = lines.next()?.split(' ').next()?.parse().ok()?;
        let (name, run_dir) = (lines.next()?.to_owned(), PathBuf::from(lines.next()?));
        if lock::is_taken(&file) {
            return Some(Other { file, pid, name, run_dir, left: None });
        }
        let journal = run_dir.join(format!("{name}.journal"));
        let ours = fs::symlink_metadata(&journal).ok()?.uid() == rustix::process::geteuid().as_raw();
        let state = replay(&fs::read(&journal).ok().filter(|_| ours)?);
        let of_this_boot = state.begin.as_ref().is_none_or(|begin| begin.boot == boot_id(PROC.as_ref()));
        let open = of_this_boot && state.entries().any(|entry| !entry.is_closed());
        open.then_some(Other { file, pid, name, run_dir, left: Some(state) })
    }

    fn has(&self, thread: ThreadId) -> bool {
        let Some(left) = &self.left else { return ranges::is_locked(&self.file, byte_of(thread)) };
        let places = [Place::Affinity(thread), Place::Class(thread), Place::Stopped(thread)];
        places.iter().any(|place| left.entry(place).is_some_and(|entry| !entry.is_closed()))
    }

    fn words(&self) -> String {
        let directory = self.run_dir.display();
        match (&self.left, self.name.as_str()) {
            (Some(_), _) => {
                format!(
                    "a Quell that was killed left it changed; put it back with `quell restore --run-dir {directory}`"
                )
            }
            (None, "agent") => {
                format!(
                    "another agent has it: process {} with run directory {directory}; give each agent workloads of its own",
                    self.pid
                )
            }
            (None, _) => format!("a `quell exec` has it: process {} with run directory {directory}", self.pid),
        }
    }
}

/// A thread's byte: its number and its start in one.
fn byte_of(thread: ThreadId) -> i64 {
    const STARTS: u32 = 40;
    let number = i64::from(thread.tid) & 0x3f_ffff;
    number << STARTS | (thread.start & ((1 << STARTS) - 1)) as i64
}

/// The directory of this user's Quells.
fn place() -> Option<PathBuf> {
    let base = if rustix::process::geteuid().is_root() {
        PathBuf::from("/run/quell")
    } else {
        PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty())?).join("quell")
    };
    own_directory(&base, 0o755).ok().map(|()| base.join("agents"))
}

/// Makes a directory, if it is not there, that no other user may write into.
fn own_directory(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if own && found.mode() & 0o777 & !mode == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!("{} is not a directory of this user's alone", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: ThreadId = ThreadId { tid: 4711, start: 99 };

    #[test]
    fn two_quells_never_have_one_thread_and_a_number_that_is_used_again_is_another() {
        let directory = tempfile::tempdir().unwrap();
        let registry = directory.path().join("agents");
        let register = |claim| Owners::register_in(&registry, directory.path(), claim).unwrap();
        let (mut first, mut second) = (register("agent"), register("exec-1"));
        first.take(THREAD).unwrap();
        let refused = second.take(THREAD).unwrap_err();
        assert!(refused.contains(&std::process::id().to_string()) && refused.contains("another agent"), "{refused}");
        second.take(ThreadId { start: 100, ..THREAD }).unwrap();
        let worker = first.for_worker().unwrap();
        assert_eq!(second.owner(THREAD), None, "a new worker begins without");
        drop(worker);
        first.release(&[THREAD]);
        first.take(THREAD).unwrap();
        assert!(second.owner(THREAD).is_some());
        first.release(&[THREAD]);
        second.take(THREAD).unwrap();
        first.end();
        assert_eq!(fs::read_dir(&registry).unwrap().count(), 2, "the other's, and the turn");
    }
}
