//! The layout of the two pages that a cooperating program and Quell share, and the rules by which each is read.
//!
//! The program writes [`ProgramPage`], Quell writes [`QuellPage`], which the program can only read. A worker (a thread that takes
//! requests) has one line of 64 bytes in each, at the same place; the lines are contiguous, so that a reader profits from the
//! hardware's prefetching (caladan-osdi20 §6). Times are CLOCK_MONOTONIC in nanoseconds; 0 is none. Numbers are the machine's.
//!
//! Quell believes nothing: it copies a page once, and reads the copy ([`Copied`]). A time later than now counts as now, and one
//! before the page was handed out as that moment.
#![no_std]

mod copied;
mod greeting;

pub use copied::{Copied, Seen, Worker};
pub use greeting::{Answer, Hello, Verdict};

use core::mem::{align_of, offset_of, size_of};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// The first eight bytes of a page that a program writes.
pub const PROGRAM_MAGIC: u64 = u64::from_le_bytes(*b"QuellPrg");
/// The first eight bytes of a page that Quell writes.
pub const QUELL_MAGIC: u64 = u64::from_le_bytes(*b"QuellAns");
/// The version of this layout. Another one is refused: fields are added in the space that is left, without a new number.
pub const VERSION: u32 = 1;
/// Bytes of a line.
pub const LINE: usize = 64;
/// Workers of a process.
pub const WORKERS: usize = 255;
/// Bytes of each page: the header's line and those of the workers.
pub const SIZE: usize = LINE * (WORKERS + 1);
/// CPUs are counted in thousandths.
pub const WHOLE_CPU: u32 = 1000;

/// A worker's line is free.
pub const FREE: u32 = 0;
/// The worker has no work, and sleeps or polls.
pub const IDLE: u32 = 1;
/// The worker runs a request.
pub const RUNNING: u32 = 2;

/// Sizes by which both sides know that they speak of the same layout.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Header {
    /// [`PROGRAM_MAGIC`] or [`QUELL_MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// [`LINE`].
    pub line: AtomicU32,
    /// [`WORKERS`].
    pub workers: AtomicU32,
    /// Lines that were ever used: lines beyond them are not read.
    pub used: AtomicU32,
    /// When Quell handed the page out.
    pub attached: AtomicU64,
}

/// What a worker says of itself.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct ProgramLine {
    /// The number of its thread in the program's own pid namespace.
    pub tid: AtomicU32,
    /// [`FREE`], [`IDLE`] or [`RUNNING`].
    pub state: AtomicU32,
    /// Start of the request that it runs; 0: it runs none.
    pub request: AtomicU64,
    /// Since when the oldest task waits in its queue; 0: none waits.
    pub task: AtomicU64,
    /// Since when the oldest I/O event waits; 0: none does, or the program does not know.
    pub event: AtomicU64,
    /// Tasks in its queue.
    pub queued: AtomicU32,
}

/// What Quell says to a worker.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct QuellLine {
    /// CPUs that the workload has now, in thousandths; 0: not known.
    pub granted: AtomicU32,
    /// CPUs that it is guaranteed, in thousandths.
    pub guaranteed: AtomicU32,
    /// CPUs that it has at most, in thousandths; 0: no limit.
    pub limit: AtomicU32,
    /// Is the worker asked to leave its CPU? 0: no.
    pub leave: AtomicU32,
    /// Changes whenever another field of the line does.
    pub generation: AtomicU64,
}

/// The page that the program writes and Quell reads.
#[derive(Debug)]
#[repr(C)]
pub struct ProgramPage {
    /// Its first line.
    pub header: Header,
    /// A line for each worker.
    pub lines: [ProgramLine; WORKERS],
}

/// The page that Quell writes and the program reads.
#[derive(Debug)]
#[repr(C)]
pub struct QuellPage {
    /// Its first line.
    pub header: Header,
    /// A line for each worker.
    pub lines: [QuellLine; WORKERS],
}

const _: () = {
    assert!(size_of::<Header>() == LINE && size_of::<ProgramLine>() == LINE && size_of::<QuellLine>() == LINE);
    assert!(size_of::<ProgramPage>() == SIZE && size_of::<QuellPage>() == SIZE && SIZE.is_multiple_of(4096));
    assert!(align_of::<ProgramPage>() == LINE && align_of::<QuellPage>() == LINE);
    assert!(offset_of!(Header, version) == 8 && offset_of!(Header, used) == 20 && offset_of!(Header, attached) == 24);
    assert!(offset_of!(ProgramLine, request) == 8 && offset_of!(ProgramLine, task) == 16);
    assert!(offset_of!(ProgramLine, event) == 24 && offset_of!(ProgramLine, queued) == 32);
    assert!(offset_of!(QuellLine, leave) == 12 && offset_of!(QuellLine, generation) == 16);
};

impl Header {
    /// Writes all of it for a page of this kind.
    pub fn begin(&self, magic: u64, attached: u64) {
        use core::sync::atomic::Ordering::Relaxed;
        self.magic.store(magic, Relaxed);
        self.version.store(VERSION, Relaxed);
        self.line.store(LINE as u32, Relaxed);
        self.workers.store(WORKERS as u32, Relaxed);
        self.used.store(0, Relaxed);
        self.attached.store(attached, Relaxed);
    }

    /// Is this a page of this kind in this layout?
    pub fn is(&self, magic: u64) -> bool {
        use core::sync::atomic::Ordering::Relaxed;
        self.magic.load(Relaxed) == magic
            && self.version.load(Relaxed) == VERSION
            && self.line.load(Relaxed) == LINE as u32
            && self.workers.load(Relaxed) == WORKERS as u32
    }
}
