//! What protects the generator's thread from the load that it makes.

use std::io;
use std::num::NonZeroU64;

use crate::{Error, Result};

/// Makes the calling thread SCHED_FIFO with a priority from 1 to 99. Its children are ordinary again.
///
/// # Errors
/// [`Error::Realtime`] without CAP_SYS_NICE, or where the thread's cgroup has no real-time budget.
pub(crate) fn become_fifo(priority: u8) -> Result<()> {
    let parameters = libc::sched_param { sched_priority: i32::from(priority) };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `parameters` lives through the call; thread 0 is the caller.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } == 0 {
        return Ok(());
    }
    Err(Error::Realtime { priority, reason: io::Error::last_os_error() })
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
