//! What threads had of the CPUs that have ended since: `/proc/PID/task` no longer says.

use std::sync::atomic::{AtomicU64, Ordering};

use quell_model::Nanos;
use quell_thread::clock;

use crate::counted::Counted;
use crate::threads::Had;

/// What is known of threads of this process that have ended.
#[derive(Debug, Default)]
pub struct Ended {
    count: AtomicU64,
    /// Time that they have waited for a CPU, ns.
    waited: AtomicU64,
}

impl Ended {
    /// A thread ends that was asked for this long ago and has not slept since; its CPU time. All that it did not run it waited.
    pub fn add(&self, since: Nanos, ran: Nanos) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.waited.fetch_add(since.0.saturating_sub(ran.0), Ordering::Relaxed);
    }

    /// The same as `had` with the threads that have ended: of CPU time the process' clock has all.
    pub fn with(&self, had: Had) -> Had {
        Had { ran: clock::process_cpu_time(), waited: had.waited + Nanos(self.waited.load(Ordering::Relaxed)), ..had }
    }

    /// The same as `counted`, of the threads that are there, with the switches of those that have ended; the kernel leaves out
    /// the last one of each. Their migrations are nowhere. To be called by the process' first thread, which is not counted.
    pub fn counted_with(&self, counted: Counted) -> Counted {
        let (all, first) = (switches(libc::RUSAGE_SELF), switches(libc::RUSAGE_THREAD));
        let [sleeps, preemptions] = [0, 1].map(|kind| all[kind].saturating_sub(first[kind]));
        Counted { sleeps: sleeps + self.count.load(Ordering::Relaxed), preemptions, ..counted }
    }
}

/// Voluntary and involuntary switches.
fn switches(of: i32) -> [u64; 2] {
    // SAFETY: `rusage` is plain numbers, for which zeroes are values.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes a `rusage` to where it is pointed; with these constants it does not fail.
    unsafe { libc::getrusage(of, &raw mut usage) };
    [usage.ru_nvcsw, usage.ru_nivcsw].map(|count| count.try_into().unwrap_or(0))
}
