//! The scheduling of the generator's own thread, and of an antagonist that is to disturb least.

use std::num::NonZeroU64;
use std::thread;

use quell_thread::Class;
use quell_thread::class::become_class;

use crate::{Error, Result};

/// Makes the calling thread SCHED_FIFO with a priority from 1 to 99. Its children are ordinary again.
///
/// # Errors
/// [`Error::Realtime`] without CAP_SYS_NICE, or where the thread's cgroup has no real-time budget.
pub(crate) fn become_fifo(priority: u8) -> Result<()> {
    become_class(Class::Fifo(priority)).map_err(|reason| Error::Realtime { priority, reason })
}

/// Finds out if the calling process may have SCHED_FIFO threads of this priority, on a thread of its own.
///
/// # Errors
/// [`Error::Realtime`] if it may not.
pub fn may_become_fifo(priority: u8) -> Result<()> {
    thread::spawn(move || become_fifo(priority)).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Makes the calling thread, and those that it starts from now on, SCHED_IDLE: they run where no other work wants the CPU. Every
/// user may do this; an ordinary one cannot take it back.
///
/// # Errors
/// When the kernel refuses.
pub fn become_idle() -> Result<()> {
    become_class(Class::Idle).map_err(Error::system("make SCHED_IDLE", "this thread"))
}

/// Lets the calling thread's timers fire when they are due. Linux otherwise adds up to 50 µs to every wait of an
/// ordinary thread, to wake fewer CPUs.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn wake_on_time() -> Result<()> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
        .map_err(Error::system("set the timer slack", "generator thread"))
}
