//! For programs that cooperate with Quell, in C (`quell.h`) and in Rust: they export how long requests wait, and learn how many CPUs
//! they have. Nothing here starts a thread; nothing allocates after [`attach`]; the child of a fork begins anew.
//!
//! A worker's stores go into memory that the agent reads (`quell_page`). Without an agent they go into memory of the program's
//! own, which is exchanged in place when an agent has answered: a worker's line stays where it is.

mod abi;
mod asking;
mod shared;

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

use quell_page::{IDLE, ProgramLine, RUNNING, WHOLE_CPU};

pub use abi::*;
pub use asking::Unattached;

/// Asks the agent for the pages, and waits for at most 250 ms.
///
/// # Errors
/// If no agent answers, or it refuses; [`words`] says what to do. The program goes on either way.
pub fn attach() -> Result<(), Unattached> {
    if !shared::prepare(asking::begin_anew) {
        return Err(Unattached::System);
    }
    asking::ask_and_wait()
}

/// The agent's last answer in words.
#[must_use]
pub fn words() -> String {
    asking::words()
}

/// CPUs that the program has now, rounded up, at least 1; without an agent, those that it may run on.
#[must_use]
pub fn cpus() -> u32 {
    asking::ask_again();
    whole(shared::said(0).map_or(0, |line| line.granted.load(Relaxed)))
}

/// CPUs that the program can have at most: the number of threads to start.
#[must_use]
pub fn cpus_most() -> u32 {
    asking::ask_again();
    whole(shared::said(0).map_or(0, |line| line.limit.load(Relaxed)))
}

fn whole(thousandths: u32) -> u32 {
    match thousandths.div_ceil(WHOLE_CPU) {
        0 => rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count().max(1)),
        known => known,
    }
}

/// A thread that takes requests: its line in the shared page.
#[derive(Clone, Copy, Debug)]
pub struct Worker(&'static ProgramLine);

/// A request that a worker runs; it ends with this value.
#[derive(Debug)]
pub struct Request(Worker);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Worker {
    /// The calling thread's; None before [`attach`], and for the 256th worker. It is free again when the thread ends.
    #[must_use]
    pub fn here() -> Option<Worker> {
        shared::of_this_thread().map(Worker)
    }

    /// Begins a request.
    #[must_use]
    pub fn request(self) -> Request {
        self.begin();
        Request(self)
    }

    fn begin(self) {
        self.0.request.store(now(), Relaxed);
        self.0.state.store(RUNNING, Relaxed);
    }

    fn end(self) {
        self.0.request.store(0, Relaxed);
        self.0.state.store(IDLE, Relaxed);
    }

    /// A task was put into this worker's queue; returns the time, to be kept with the task.
    pub fn queued(self) -> u64 {
        let at = now();
        if self.0.queued.fetch_add(1, AcqRel) == 0 || self.0.task.load(Acquire) == 0 {
            self.0.task.store(at, Relaxed);
        }
        at
    }

    /// A task was taken out of this worker's queue; `oldest` is the time of the one that is the oldest now; 0: the queue is empty.
    pub fn dequeued(self, oldest: u64) {
        let left = if oldest == 0 { 0 } else { self.0.queued.load(Acquire).saturating_sub(1) };
        let since = match (left, oldest) {
            (0, NO_TIME) => 0,
            (_, NO_TIME) => now(),
            (_, oldest) => oldest,
        };
        self.0.task.store(since, Relaxed);
        self.0.queued.store(left, Relaxed);
    }

    /// This many I/O events are ready and not handled yet: the oldest waits from the first call that found one.
    pub fn events(self, left: u32) {
        let since = match (left, self.0.event.load(Relaxed)) {
            (0, _) => 0,
            (_, 0) => now(),
            (_, since) => since,
        };
        self.0.event.store(since, Relaxed);
    }

    /// Is this worker asked to leave its CPU?
    #[must_use]
    pub fn should_leave(self) -> bool {
        let is_asked = || shared::said(shared::place_of(self.0)).is_some_and(|line| line.leave.load(Relaxed) != 0);
        // An agent that is gone asks for nothing.
        is_asked() && {
            asking::ask_again();
            is_asked()
        }
    }
}

/// What a worker of this process exports at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Tasks in its queue.
    pub queued: u32,
    /// How long the oldest one has waited.
    pub waited: Duration,
}

/// What the workers of this process export, for its own tests and metrics.
#[must_use]
pub fn waiting() -> Vec<Waiting> {
    let at = now();
    let waited = |since: u64| Duration::from_nanos(if since == 0 { 0 } else { at.saturating_sub(since) });
    let of =
        |line: &ProgramLine| Waiting { queued: line.queued.load(Relaxed), waited: waited(line.task.load(Relaxed)) };
    shared::lines().map(of).collect()
}

/// The program does not know since when the next task waits.
pub const NO_TIME: u64 = u64::MAX;

/// CLOCK_MONOTONIC, in nanoseconds.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
