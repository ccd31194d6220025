//! Progress of an antagonist, readable from another process at any instant and without disturbing it: one counter a
//! thread in shared memory.
//!
//! The file is a header line (magic number, threads, instant of the start) and then one cache line a thread with its
//! number of blocks, all in the machine's own 64-bit integers.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use memmap2::{MmapMut, MmapOptions};

use crate::{Error, Result};

const MAGIC: u64 = u64::from_le_bytes(*b"quellpr1");
const LINE_BYTES: usize = 64;

/// A cache line of shared memory.
#[repr(C, align(64))]
struct Line([AtomicU64; 8]);

/// An antagonist's counters.
#[derive(Debug)]
pub struct Progress {
    map: MmapMut,
}

impl Progress {
    /// Counters for `threads` threads; in a new file where a path is given, so that others can [`Progress::open`] it.
    ///
    /// # Errors
    /// When the file or the mapping cannot be made.
    pub fn create(path: Option<&Path>, threads: u32) -> Result<Self> {
        let bytes = (threads as usize + 1) * LINE_BYTES;
        let map = match path {
            None => MmapMut::map_anon(bytes).map_err(Error::system("map memory", "progress counters"))?,
            Some(path) => {
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .open(path)
                    .map_err(Error::file("create", path))?;
                file.set_len(bytes as u64).map_err(Error::file("set the length of", path))?;
                map(&file, bytes).map_err(Error::file("map", path))?
            }
        };
        let progress = Self { map };
        let header = &progress.lines()[0].0;
        header[1].store(u64::from(threads), Relaxed);
        header[0].store(MAGIC, Release);
        Ok(progress)
    }

    /// The counters of an antagonist that runs with this file; `None` while it has not made them yet.
    ///
    /// # Errors
    /// When the file cannot be read or is something else.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("open", path)(error)),
        };
        let bytes = file.metadata().map_err(Error::file("stat", path))?.len() as usize;
        if bytes == 0 {
            return Ok(None);
        }
        let foreign = |problem: &str| Error::Format { path: path.to_owned(), problem: problem.into() };
        if !bytes.is_multiple_of(LINE_BYTES) {
            return Err(foreign("is no progress file: its length is not a multiple of 64 bytes"));
        }
        let progress = Self { map: map(&file, bytes).map_err(Error::file("map", path))? };
        let header = &progress.lines()[0].0;
        match header[0].load(Acquire) {
            0 => Ok(None),
            MAGIC if header[1].load(Relaxed) as usize == progress.lines().len() - 1 => Ok(Some(progress)),
            _ => Err(foreign("is no progress file of this version")),
        }
    }

    /// Blocks done by all threads.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.thread_blocks().sum()
    }

    /// Blocks done, thread by thread.
    pub fn thread_blocks(&self) -> impl Iterator<Item = u64> + '_ {
        self.lines()[1..].iter().map(|line| line.0[0].load(Relaxed))
    }

    /// Start of the work, CLOCK_MONOTONIC ns; `None` while memory is still being prepared.
    #[must_use]
    pub fn started_ns(&self) -> Option<u64> {
        match self.lines()[0].0[2].load(Acquire) {
            0 => None,
            started => Some(started),
        }
    }

    pub(crate) fn start(&self, now_ns: u64) {
        self.lines()[0].0[2].store(now_ns, Release);
    }

    /// A thread's counter; only that thread writes it.
    pub(crate) fn counter(&self, thread: u32) -> &AtomicU64 {
        &self.lines()[thread as usize + 1].0[0]
    }

    fn lines(&self) -> &[Line] {
        // SAFETY: a mapping begins at a page, so it is aligned; its length is the whole number of lines that is
        // counted here; it lives as long as `self`. All access to it, in every process, is by atomic integers, for
        // which any bits are valid.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<Line>(), self.map.len() / LINE_BYTES) }
    }
}

fn map(file: &File, bytes: usize) -> std::io::Result<MmapMut> {
    // SAFETY: the mapping is only ever seen as atomic integers (`lines`), so that another process may write to it.
    // One that cut the file short would kill this process by SIGBUS; the file belongs to the pair that uses it.
    unsafe { MmapOptions::new().len(bytes).map_mut(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_mapping_of_the_file_sees_every_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("progress");
        assert!(Progress::open(&path).unwrap().is_none());
        let ours = Progress::create(Some(&path), 3).unwrap();
        let theirs = Progress::open(&path).unwrap().unwrap();
        assert_eq!((theirs.blocks(), theirs.started_ns()), (0, None));
        ours.start(17);
        ours.counter(0).store(5, Relaxed);
        ours.counter(2).store(7, Relaxed);
        assert_eq!(theirs.started_ns(), Some(17));
        assert_eq!(theirs.thread_blocks().collect::<Vec<_>>(), [5, 0, 7]);
        assert_eq!(theirs.blocks(), 12);
    }

    #[test]
    fn other_files_are_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("other");
        for bytes in [vec![1u8; 64], vec![1u8; 63], b"quellpr1".iter().copied().chain([9; 56]).collect()] {
            std::fs::write(&path, &bytes).unwrap();
            assert!(Progress::open(&path).unwrap_err().to_string().contains("other"));
        }
        std::fs::write(&path, [0u8; 128]).unwrap();
        assert!(Progress::open(&path).unwrap().is_none(), "not ready yet");
        let text = Progress::create(Some(Path::new("/nowhere/p")), 1).unwrap_err().to_string();
        assert!(text.contains("/nowhere/p"), "{text}");
    }
}
