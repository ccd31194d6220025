//! The agent's own priority: a thread that limits real-time threads must run before them, and must not spin before
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quell_model::{CpuId, Nanos};
use quell_thread::class::{become_class, fifo_priority, set_class};
use quell_thread::{Class, clock};
use rustix::io::Errno;

use crate::AgentError;

/// Nothing of Quell's runs before a sentry: it sleeps nearly always.
const PRIORITY_OF_SENTRIES: u8 = 99;
/// Interval of a sentry's checks, and length of a silent thread's alternate turns as ordinary and as real-time thread.
const LOOK: Duration = Duration::from_millis(50);
/// A real-time thread without a sign of life for this long may be spinning.
const PATIENCE: Nanos = Nanos::from_millis(300);
const STACK: usize = 128 * 1024;

/// Makes the calling thread SCHED_FIFO of this priority. Children that it forks begin as ordinary threads. Returns
/// false where the system does not allow it (no CAP_SYS_NICE and no RLIMIT_RTPRIO).
///
/// # Errors
/// Any other refusal of the system.
pub fn run_before_others(priority: u8) -> Result<bool, AgentError> {
    match become_class(Class::Fifo(priority)) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => Ok(false),
        Err(source) => Err(AgentError::System { operation: "set the agent's own priority", source }),
    }
}

/// The calling thread runs on this CPU alone from now on, with those that it starts.
///
/// # Errors
/// If the system refuses.
pub fn stay_on(cpu: CpuId) -> Result<(), AgentError> {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu.index());
    rustix::thread::sched_setaffinity(None, &cpus)
        .map_err(|errno| AgentError::System { operation: "reserve a CPU for the loop", source: errno.into() })
}

/// The calling thread may run on any CPU again.
///
/// # Errors
/// If the system refuses.
pub fn stay_nowhere() -> Result<(), AgentError> {
    let mut cpus = rustix::thread::CpuSet::new();
    (0..rustix::thread::CpuSet::MAX_CPU).for_each(|cpu| cpus.set(cpu));
    rustix::thread::sched_setaffinity(None, &cpus)
        .map_err(|errno| AgentError::System { operation: "let the loop run anywhere", source: errno.into() })
}

/// The calling thread is an ordinary one again.
///
/// # Errors
/// If the system refuses.
pub fn run_among_others() -> Result<(), AgentError> {
    become_class(Class::Normal)
        .map_err(|source| AgentError::System { operation: "set the agent's own priority", source })
}

/// A real-time thread of the agent's that looks processes up.
///
/// A thread that looks up a file of a process that just died helps the kernel to drop its directory entries, and waits
/// for other threads that do the same by *spinning* (`shrink_dcache_parent`). If one of them is a real-time thread of
/// lower priority that the spinning one preempted, and no other CPU is free for it, the spinning never ends: nothing
/// preempts a SCHED_FIFO thread, no signal ends it, and a second thread of ours that looks processes up takes the next
/// CPU. Therefore a sentry, which looks up no files, makes a thread without a sign of life an ordinary one, for long
/// enough that the preempted thread proceeds, then a real-time one again, because it may just as well be starving
/// behind real-time threads, and so on in turn until the next sign of life.
#[derive(Debug)]
pub struct Sentry {
    watched: Arc<Watched>,
    /// Dropped to end the sentry's thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Watched {
    tid: i32,
    priority: u8,
    heard_at: AtomicU64,
    demoted: AtomicBool,
}

impl Sentry {
    /// Makes the calling thread real-time, as [`run_before_others`], with a sentry beside it until the value is dropped.
    /// Where the system does not allow real-time threads, nothing happens.
    ///
    /// # Errors
    /// If the system refuses for another reason, or gives no thread.
    pub fn begin(priority: u8) -> Result<Sentry, AgentError> {
        run_before_others(priority)?;
        Sentry::beside()
    }

    /// A sentry beside the calling thread if that is real-time, until the value is dropped.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn beside() -> Result<Sentry, AgentError> {
        let (watched, is_real_time) = Watched::of_this_thread();
        let mut sentry = Sentry { watched: Arc::new(watched), end: None, thread: None };
        if is_real_time {
            let (end, ended) = mpsc::channel();
            let watched = Arc::clone(&sentry.watched);
            let thread = thread::Builder::new().name("quell-sentry".into()).stack_size(STACK).spawn(move || {
                let _ = run_before_others(PRIORITY_OF_SENTRIES);
                while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    watched.look();
                }
            });
            let refused = |source| AgentError::System { operation: "start a thread", source };
            (sentry.thread, sentry.end) = (Some(thread.map_err(refused)?), Some(end));
        }
        Ok(sentry)
    }

    /// As [`Sentry::beside`], for what must be done in any case: where the system gives no thread, the calling one is an
    /// ordinary one until the value is dropped.
    #[must_use]
    pub fn beside_or_ordinary() -> Sentry {
        let (watched, is_real_time) = Watched::of_this_thread();
        Sentry::beside().unwrap_or_else(|_| {
            watched.demoted.store(is_real_time && run_among_others().is_ok(), Ordering::Release);
            Sentry { watched: Arc::new(watched), end: None, thread: None }
        })
    }

    /// Is there a real-time thread to watch?
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.thread.is_some()
    }

    /// The thread is alive. To be called by it, more often than every 300 ms. Returns true if the sentry had lost patience.
    pub fn beat(&self) -> bool {
        let was_silent = self.watched.is_silent();
        self.watched.heard_at.store(clock::now().0, Ordering::Release);
        if self.watched.demoted.swap(false, Ordering::AcqRel) {
            let _ = run_before_others(self.watched.priority);
        }
        was_silent
    }
}

impl Drop for Sentry {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.beat();
    }
}

impl Watched {
    /// Is it real-time, too?
    fn of_this_thread() -> (Watched, bool) {
        // SAFETY: a plain system call.
        let tid = unsafe { libc::gettid() };
        let own = fifo_priority();
        let (heard_at, demoted) = (AtomicU64::new(clock::now().0), AtomicBool::new(false));
        (Watched { tid, priority: own.unwrap_or(0), heard_at, demoted }, own.is_some())
    }

    fn is_silent(&self) -> bool {
        clock::now().since(Nanos(self.heard_at.load(Ordering::Acquire))) > PATIENCE
    }

    fn look(&self) {
        if !self.is_silent() {
            return;
        }
        let demote = !self.demoted.fetch_xor(true, Ordering::AcqRel);
        let real_time = || set_class(self.tid, Class::Fifo(self.priority));
        if !demote {
            let _ = real_time();
            return;
        }
        let _ = set_class(self.tid, Class::Normal);
        // With a heartbeat in between, it may have become real-time just before it was made ordinary.
        if !self.is_silent() {
            self.demoted.store(false, Ordering::Release);
            let _ = real_time();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn is_fifo() -> bool {
        fifo_priority().is_some()
    }

    fn spin_while(longest: Duration, goes_on: impl Fn() -> bool) {
        let begun = Instant::now();
        while goes_on() && begun.elapsed() < longest {}
    }

    #[test]
    fn who_is_not_heard_of_is_an_ordinary_thread_by_turns_until_it_is() {
        let sentry = Sentry::begin(1).unwrap();
        if !sentry.is_real_time() {
            println!("skipped: no permission for real-time classes (run as root)");
            return;
        }
        assert!(is_fifo());
        for _ in 0..2 {
            spin_while(Duration::from_secs(30), is_fifo);
            assert!(!is_fifo());
            spin_while(Duration::from_secs(30), || !is_fifo());
            assert!(is_fifo());
        }
        assert!(sentry.beat() && is_fifo());
        assert!(!sentry.beat());
        spin_while(Duration::from_secs(30), is_fifo);
        drop(sentry);
        assert!(is_fifo(), "as `run_before_others` left it");
    }
}
