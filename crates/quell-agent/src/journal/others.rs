//! The other Quells of this user, and the threads that they have.

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

pub(super) const PROC: &str = "/proc";
/// A directory that changed this lately is listed again: its time is that of a clock tick.
const TICK: Duration = Duration::from_millis(100);
/// The journals of killed Quells are read again after this.
const LEFT_EVERY: Duration = Duration::from_secs(1);

/// Those that have a file in a directory, but for the own one.
#[derive(Debug)]
pub struct Others {
    directory: PathBuf,
    own: PathBuf,
    others: Vec<Other>,
    listed: Option<(SystemTime, Instant)>,
}

/// Another Quell.
#[derive(Debug)]
struct Other {
    file: File,
    pid: i32,
    name: String,
    run_dir: PathBuf,
    is_own: bool,
    /// It was killed: what its journal has to put back.
    left: Option<Replay>,
}

/// Another Quell that has a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// In words.
    pub by: String,
    /// Where it may answer requests, if it lives.
    pub socket: Option<PathBuf>,
}

impl Others {
    /// Those beside the Quell with this journal. `None`: this user has no place for them.
    #[must_use]
    pub fn beside(journal: &Path) -> Option<Others> {
        Some(Others::in_directory(&place()?, journal))
    }

    pub(super) fn in_directory(directory: &Path, journal: &Path) -> Others {
        let own = fs::canonicalize(journal.parent().unwrap_or(journal)).unwrap_or_default();
        let own = own.join(journal.file_name().unwrap_or_default());
        Others { directory: directory.to_owned(), own, others: Vec::new(), listed: None }
    }

    /// One that has this thread.
    pub fn owner(&mut self, thread: ThreadId) -> Option<Owner> {
        if let Err(error) = self.list() {
            tracing::debug!(%error, "other Quell processes could not be examined");
        }
        let other = self.others.iter().find(|other| other.has(thread))?;
        let socket = other.left.is_none().then(|| other.socket());
        Some(Owner { by: other.words(), socket })
    }

    /// Looks at the directory if it has changed, and at the journals of killed Quells.
    pub(super) fn list(&mut self) -> io::Result<()> {
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
            // The file of the turn, and those that are not whole yet.
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            match Other::read(&entry.path(), &self.own) {
                Some(Other { is_own: true, .. }) => {}
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
    /// Where it answers: the agent, or a command by its name.
    fn socket(&self) -> PathBuf {
        let file = if self.name == "agent" { "api.sock".to_owned() } else { format!("{}.sock", self.name) };
        self.run_dir.join(file)
    }

    /// `None`: it does not live, and left nothing to put back.
    fn read(path: &Path, own: &Path) -> Option<Other> {
        let file = lock::open(path).ok()?;
        let text = fs::read_to_string(path).ok()?;
        let mut lines = text.lines();
        let pid = lines.next()?.split(' ').next()?.parse().ok()?;
        let (name, run_dir) = (lines.next()?.to_owned(), PathBuf::from(lines.next()?));
        let journal = run_dir.join(format!("{name}.journal"));
        let is_own = journal == own;
        if is_own || lock::is_taken(&file) {
            return Some(Other { file, pid, name, run_dir, is_own, left: None });
        }
        let ours = fs::symlink_metadata(&journal).ok()?.uid() == rustix::process::geteuid().as_raw();
        let state = replay(&fs::read(&journal).ok().filter(|_| ours)?);
        let of_this_boot = state.begin.as_ref().is_none_or(|begin| begin.boot == boot_id(PROC.as_ref()));
        let open = of_this_boot && state.entries().any(|entry| !entry.is_closed());
        open.then_some(Other { file, pid, name, run_dir, is_own, left: Some(state) })
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
                format!("a killed Quell left it changed; put it back with `quell restore --run-dir {directory}`")
            }
            (None, "agent") => {
                format!(
                    "another agent manages it: process {} with run directory {directory}; give each agent workloads of its own",
                    self.pid
                )
            }
            (None, name) => match name.split_once('-') {
                Some(("protect", pid)) => {
                    format!(
                        "`quell protect` manages it, with run directory {directory}; end that first: kill -INT {pid}"
                    )
                }
                Some(("exec", pid)) => {
                    format!(
                        "`quell exec` manages it, with run directory {directory}; end its command first: kill {pid}"
                    )
                }
                Some((command, pid)) => {
                    format!(
                        "`quell {command}` manages it, with run directory {directory}; wait for its end, or end it: kill -INT {pid}"
                    )
                }
                None => format!("process {} manages it, with run directory {directory}; end that first", self.pid),
            },
        }
    }
}

/// A thread's byte: its number and its start in one.
pub(super) fn byte_of(thread: ThreadId) -> i64 {
    const STARTS: u32 = 40;
    let number = i64::from(thread.tid) & 0x3f_ffff;
    number << STARTS | (thread.start & ((1 << STARTS) - 1)) as i64
}

/// The directory of this user's Quells.
pub(super) fn place() -> Option<PathBuf> {
    let base = if rustix::process::geteuid().is_root() {
        PathBuf::from("/run/quell")
    } else {
        PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty())?).join("quell")
    };
    own_directory(&base, 0o755).ok().map(|()| base.join("agents"))
}

/// Makes a directory, if it is not there, that no other user may write into.
pub(super) fn own_directory(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if own && found.mode() & 0o777 & !mode == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!("{} is not a directory that only this user can write to", path.display())))
}
