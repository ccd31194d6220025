//! The agent's own priority: who limits real-time threads must run before them.

use rustix::io::Errno;

use crate::AgentError;

/// Makes the calling thread SCHED_FIFO of this priority. Children that it forks begin as ordinary threads. Returns
/// false where the system does not allow it (no CAP_SYS_NICE and no RLIMIT_RTPRIO).
///
/// # Errors
/// Any other refusal of the system.
pub fn run_before_others(priority: u8) -> Result<bool, AgentError> {
    let parameters = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: a plain system call on the calling thread with a pointer that lives for its duration.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters) };
    if result == 0 {
        return Ok(true);
    }
    let source = std::io::Error::last_os_error();
    if source.raw_os_error() == Some(Errno::PERM.raw_os_error()) {
        return Ok(false);
    }
    Err(AgentError::System { operation: "set the agent's own priority", source })
}
