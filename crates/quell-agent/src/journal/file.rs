//! The journal on disk: appends a record before each write, and keeps the file small.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quell_linux::Roots;
use quell_linux::procfs::has_ended;
use quell_linux::write::{Conflict, Fate, Journal, Place, Value, Write};
use quell_model::{ThreadId, WorkloadId};

use super::conflicts::Conflicts;
use super::owner::{boot_id, of_thread, ticks_since_boot};
use super::record::{PROGRAM, VERSION};
use super::{Begin, Entry, Owner, Owners, Record, Replay};

/// A file below this size is never rewritten.
const SMALL: u64 = 1 << 20;

/// Closes a journal from another thread: no write is announced any more, so that none is made.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<AtomicBool>);

impl Gate {
    /// From now on every write is refused.
    pub fn close(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A journal that lies in a file.
#[derive(Debug)]
pub struct FileJournal {
    path: PathBuf,
    proc: PathBuf,
    file: File,
    size: u64,
    rewrite_at: u64,
    state: Replay,
    next: u64,
    gate: Gate,
    line: Vec<u8>,
    conflicts: Conflicts,
}

impl FileJournal {
    /// Begins an empty journal. The file's former content is lost: restore it first.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn create(path: &Path, roots: &Roots) -> io::Result<FileJournal> {
        let begin = Record::Begin(Begin {
            version: VERSION,
            boot: boot_id(&roots.proc),
            pid: std::process::id() as i32,
            start: ticks_since_boot(),
            program: PROGRAM.to_owned(),
        });
        let mut state = Replay::default();
        state.read(begin.clone());
        let mut line = Vec::new();
        begin.append_to(&mut line);
        let file = replace(path, &line)?;
        Ok(FileJournal {
            path: path.to_owned(),
            proc: roots.proc.clone(),
            file,
            size: line.len() as u64,
            rewrite_at: SMALL,
            state,
            next: 1,
            gate: Gate::default(),
            line,
            conflicts: Conflicts::default(),
        })
    }

    /// Refuses writes on threads that other Quells have, and lets those know which threads this one has.
    #[must_use]
    pub fn with_owners(mut self, owners: Option<Owners>) -> FileJournal {
        self.conflicts = Conflicts::with(owners);
        self
    }

    /// Closed by this gate as well as another journal is.
    #[must_use]
    pub fn with_gate(mut self, gate: Gate) -> FileJournal {
        self.gate = gate;
        self
    }

    /// A handle that closes this journal from another thread.
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// The entries that would have to be restored now.
    #[must_use]
    pub fn state(&self) -> &Replay {
        &self.state
    }

    fn append(&mut self, record: Record) -> io::Result<()> {
        self.line.clear();
        record.append_to(&mut self.line);
        if self.line.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "its path is not UTF-8"));
        }
        if let Err(error) = self.file.write_all(&self.line) {
            // Whatever part of the line got there is ended here, so that the next one is a line of its own.
            let _ = self.file.set_len(self.size);
            return Err(error);
        }
        self.size += self.line.len() as u64;
        self.state.read(record);
        Ok(())
    }

    /// Rewrites the file with the entries still needed, if it has grown.
    fn keep_small(&mut self) -> io::Result<()> {
        if self.size < self.rewrite_at {
            return Ok(());
        }
        let alive = self.alive();
        self.state.retain(|entry| match entry.place {
            Place::Affinity(thread) | Place::Class(thread) | Place::Stopped(thread) => {
                !entry.is_closed()
                    && (alive.contains(&thread.tid) || entry.owner.is_some_and(|owner| alive.contains(&owner.pid)))
            }
            Place::Membership(ref of) => !entry.is_closed() && alive.contains(&of.thread.tid),
            Place::File(_)
            | Place::Controllers(_)
            | Place::Group(_)
            | Place::Cgroup(_)
            | Place::Line(_)
            | Place::Autogroup(_) => !entry.is_closed(),
        });
        let mut text = Vec::new();
        if let Some(begin) = self.state.begin.clone() {
            Record::Begin(begin).append_to(&mut text);
        }
        for entry in self.state.entries() {
            let mut announce = |before: &Value, after: &Value| {
                let write = Write {
                    workload: entry.workload,
                    place: entry.place.clone(),
                    origin: entry.origin.clone(),
                    before: before.clone(),
                    after: after.clone(),
                };
                let (n, at) = (entry.n, entry.since);
                Record::Write { n, at, write, owner: entry.owner, inode: entry.inode }.append_to(&mut text);
            };
            // Its first write found the original value: an inherited one follows from `since` already.
            if entry.before_last != entry.origin {
                announce(&entry.origin, &entry.before_last);
            }
            announce(&entry.before_last, &entry.last);
        }
        self.file = replace(&self.path, &text)?;
        self.size = text.len() as u64;
        self.rewrite_at = SMALL.max(self.size * 2);
        Ok(())
    }

    fn is_there(&self, number: i32) -> bool {
        !has_ended(&self.proc, number) && self.proc.join(number.to_string()).exists()
    }

    /// The numbers of all threads in the journal, and of their processes, that still are the same ones.
    fn alive(&self) -> HashSet<i32> {
        let mut alive = HashSet::new();
        for entry in self.state.entries() {
            if let Some(thread) = thread_of(&entry.place)
                && self.is_there(thread.tid)
            {
                alive.insert(thread.tid);
            }
            if let Some(Owner { pid, .. }) = entry.owner
                && self.is_there(pid)
            {
                alive.insert(pid);
            }
        }
        alive
    }
}

impl Journal for FileJournal {
    fn before(&mut self, write: &Write) -> io::Result<()> {
        // What is put back needs no record: one that is not made leaves the place with its original value, which a restore
        // recognises. So a full file system keeps nothing changed.
        let needs_record = self.state.entry(&write.place).is_none() || write.after != write.origin;
        if self.state.entry(&write.place).is_none_or(Entry::is_closed) {
            self.conflicts.refuse(write)?;
        }
        if let Err(error) = self.keep_small()
            && needs_record
        {
            return Err(error);
        }
        let known = self.state.entry(&write.place).is_some();
        let owner = match thread_of(&write.place) {
            Some(thread) if !known => of_thread(&self.proc, thread.tid),
            _ => None,
        };
        let inode = match &write.place {
            Place::File(path) if !known => path.parent().and_then(inode_of),
            Place::Controllers(group) if !known => inode_of(group),
            _ => None,
        };
        let n = self.next;
        self.next += 1;
        if let Err(error) = self.append(Record::Write { n, at: ticks_since_boot(), write: write.clone(), owner, inode })
            && needs_record
        {
            return Err(error);
        }
        // Asked last: a write that is announced after the gate was closed is not made.
        if self.gate.0.load(Ordering::SeqCst) {
            return Err(io::Error::other("everything is being put back"));
        }
        Ok(())
    }

    fn done(&mut self, write: &Write, fate: Fate) -> io::Result<()> {
        let Some(n) = self.state.entry(&write.place).map(|entry| entry.n) else { return Ok(()) };
        match fate {
            // The present value shows it: not worth a record.
            Fate::Applied => {
                self.state.made(&write.place);
                Ok(())
            }
            Fate::Refused | Fate::TakenBack => {
                // The value after taking back is the one before this very write, whatever came later.
                let write = Write { after: write.before.clone(), ..write.clone() };
                let undone = Record::Write { n, at: ticks_since_boot(), write, owner: None, inode: None };
                self.append(undone)
            }
            // Closed, it no longer decides what is put back.
            Fate::Vanished if self.gate.0.load(Ordering::SeqCst) => Ok(()),
            Fate::Vanished => self.append(Record::Vanished(n)),
        }
    }

    fn attached(&mut self, id: WorkloadId, _: &str) {
        self.conflicts.forget(id);
    }

    fn members(&mut self, threads: &mut dyn Iterator<Item = (WorkloadId, ThreadId)>) {
        self.conflicts.members(threads, &self.state);
    }

    fn conflict(&mut self) -> Option<Conflict> {
        self.conflicts.next()
    }

    fn is_anothers(&mut self, thread: ThreadId) -> bool {
        self.conflicts.is_anothers(thread)
    }
}

/// The inode of a directory.
pub(crate) fn inode_of(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|found| found.ino())
}

pub(super) fn thread_of(place: &Place) -> Option<ThreadId> {
    match *place {
        Place::Affinity(thread) | Place::Class(thread) | Place::Stopped(thread) => Some(thread),
        Place::File(_)
        | Place::Controllers(_)
        | Place::Group(_)
        | Place::Cgroup(_)
        | Place::Line(_)
        | Place::Membership(_)
        | Place::Autogroup(_) => None,
    }
}

/// Puts a whole new file in place of the old one at once, and opens it for appending.
fn replace(path: &Path, text: &[u8]) -> io::Result<File> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text)?;
    fs::rename(&new, path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::replay;
    use quell_linux::write::Value;

    struct Bench {
        directory: tempfile::TempDir,
        journal: FileJournal,
    }

    impl Bench {
        fn new() -> Bench {
            let directory = tempfile::tempdir().unwrap();
            let roots = Roots::under(directory.path());
            let journal = FileJournal::create(&directory.path().join("a.journal"), &roots).unwrap();
            Bench { directory, journal }
        }

        fn write(&self, file: &str, before: &str, after: &str) -> Write {
            Write {
                workload: None,
                place: Place::File(self.directory.path().join(file)),
                origin: Value::Text("first".into()),
                before: Value::Text(before.into()),
                after: Value::Text(after.into()),
            }
        }

        fn on_disk(&self) -> Replay {
            replay(&fs::read(self.directory.path().join("a.journal")).unwrap())
        }
    }

    #[test]
    fn a_write_is_on_disk_before_it_is_made() {
        let mut bench = Bench::new();
        let write = bench.write("f", "first", "1");
        bench.journal.before(&write).unwrap();
        let state = bench.on_disk();
        let entry = state.entry(&write.place).unwrap();
        assert_eq!((&entry.origin, &entry.last), (&Value::Text("first".into()), &Value::Text("1".into())));
        assert_eq!(entry.inode, inode_of(bench.directory.path()));
    }

    #[test]
    fn a_refused_write_leaves_what_stood_there_before() {
        let mut bench = Bench::new();
        let (one, two) = (bench.write("f", "first", "1"), bench.write("f", "1", "2"));
        bench.journal.before(&one).unwrap();
        bench.journal.done(&one, Fate::Applied).unwrap();
        bench.journal.before(&two).unwrap();
        bench.journal.done(&two, Fate::Refused).unwrap();
        assert_eq!(bench.on_disk().entry(&one.place).unwrap().last, Value::Text("1".into()));
        bench.journal.done(&one, Fate::TakenBack).unwrap();
        assert_eq!(bench.on_disk().entry(&one.place).unwrap().last, Value::Text("first".into()));
    }

    #[test]
    fn a_closed_gate_refuses_every_write() {
        let mut bench = Bench::new();
        let write = bench.write("f", "first", "1");
        bench.journal.before(&write).unwrap();
        bench.journal.gate().close();
        assert!(bench.journal.before(&write).is_err());
    }

    /// Before: "not put back: … stays 1" of each value, which its guardian then put back.
    #[test]
    fn a_full_file_system_refuses_new_values_and_lets_old_ones_be_put_back() {
        let mut bench = Bench::new();
        let write = bench.write("f", "first", "1");
        bench.journal.before(&write).unwrap();
        bench.journal.done(&write, Fate::Applied).unwrap();
        bench.journal.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(bench.journal.before(&bench.write("f", "1", "2")).is_err());
        assert!(bench.journal.before(&bench.write("g", "first", "first")).is_err(), "it knows nothing of this place");
        bench.journal.before(&bench.write("f", "1", "first")).unwrap();
    }

    #[test]
    fn the_file_stays_small_and_says_the_same() {
        let mut bench = Bench::new();
        let mut last = "first".to_owned();
        for n in 0..20_000 {
            let next = n.to_string();
            let write = bench.write(&format!("f{}", n % 7), &last, &next);
            bench.journal.before(&write).unwrap();
            bench.journal.done(&write, Fate::Applied).unwrap();
            last = next;
        }
        let size = fs::metadata(bench.directory.path().join("a.journal")).unwrap().len();
        assert!(size <= SMALL + 1000, "{size}");
        let state = bench.on_disk();
        assert_eq!((state.len(), state.broken), (7, 0));
        assert_eq!(state.entry(&bench.write("f6", "", "").place).unwrap().origin, Value::Text("first".into()));
        assert_eq!(state.entry(&bench.write("f0", "", "").place).unwrap().last, Value::Text("19999".into()));
    }
}
