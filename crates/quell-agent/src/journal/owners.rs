//! Threads that living Quells have: no two have one thread.
//!
//! Each Quell that changes the machine has a file in one directory, whatever its run directory: `agents` in `/run/quell` for
//! root, which no other user may open, and in the own XDG_RUNTIME_DIR for an ordinary user. The file says which Quell it is,
//! and each thread is a locked byte in it. Guardian and worker have it open: the locks last as long as one of them lives. The
//! file of a Quell that was killed stays until its journal has nothing to put back: what is set on a thread then is not its
//! original value.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quell_model::ThreadId;

use super::others::{Others, Owner, PROC, byte_of, own_directory, place};
use super::ranges;
use crate::lock;

/// Held while a thread is looked for in the others' files and then locked in the own one.
const TURN: &str = ".turn";
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
    others: Others,
    journal: PathBuf,
    threads: BTreeSet<ThreadId>,
}

impl Owners {
    /// Makes this process known as a Quell. `None`, with a line in the log: there is no place for that, and other Quell processes cannot
    /// detect this one.
    #[must_use]
    pub fn register(run_dir: &Path, claim: &str) -> Option<Owners> {
        let place = place()?;
        let registered = Owners::register_in(&place, run_dir, claim);
        registered.inspect_err(|error| tracing::debug!(%error, "other Quell processes cannot detect this one")).ok()
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
        let journal = run_dir.join(format!("{claim}.journal"));
        let others = Others::in_directory(directory, &journal);
        let directory = directory.to_owned();
        let mut owners = Owners { directory, name, own, turn, others, journal, threads: BTreeSet::new() };
        owners.forget_forerunners(&run_dir, claim);
        // Those that ended without a word go now.
        owners.others.list()?;
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
        let others = Others::in_directory(&self.directory, &self.journal);
        let (directory, name, journal) = (self.directory.clone(), self.name.clone(), self.journal.clone());
        Ok(Owners { directory, name, own, turn, others, journal, threads: BTreeSet::new() })
    }

    /// Everything is put back.
    pub fn end(self) {
        let _ = fs::remove_file(self.directory.join(&self.name));
    }

    /// Takes a thread, unless another Quell has it.
    ///
    /// # Errors
    /// That Quell.
    pub fn take(&mut self, thread: ThreadId) -> Result<(), Owner> {
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
                    tracing::debug!(%error, "other Quell processes cannot detect thread {}", thread.tid);
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

    /// Another Quell that has this thread.
    pub fn owner(&mut self, thread: ThreadId) -> Option<Owner> {
        self.others.owner(thread)
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
        let refused = second.take(THREAD).unwrap_err().by;
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
