//! Scheduling classes of Quell's own threads (sched(7)).

use std::io;

/// A scheduling class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// SCHED_OTHER.
    Normal,
    /// SCHED_IDLE: runs where no other work wants the CPU. Every user may become this; an ordinary one cannot take it
    /// back.
    Idle,
    /// SCHED_FIFO of this priority, 1–99. Needs CAP_SYS_NICE or RLIMIT_RTPRIO, and real-time budget in the thread's
    /// cgroup where the kernel has RT group scheduling.
    Fifo(u8),
}

/// Sets the calling thread's class. Threads and processes that a [`Class::Fifo`] thread starts begin as ordinary ones.
///
/// # Errors
/// The system's.
pub fn become_class(class: Class) -> io::Result<()> {
    set_class(0, class)
}

/// Sets the class of a thread of this process; 0 is the calling one. As [`become_class`].
///
/// # Errors
/// The system's.
pub fn set_class(tid: i32, class: Class) -> io::Result<()> {
    // A thread that was SCHED_FIFO may be unable to take SCHED_RESET_ON_FORK back, so an ordinary one keeps it.
    let (policy, priority) = match class {
        Class::Normal => (libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0),
        Class::Idle => (libc::SCHED_IDLE, 0),
        Class::Fifo(priority) => (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority),
    };
    let parameters = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: a plain system call with a pointer that lives for its duration.
    match unsafe { libc::sched_setscheduler(tid, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The calling thread's priority, if it is SCHED_FIFO.
#[must_use]
pub fn fifo_priority() -> Option<u8> {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: plain system calls about the calling thread, with a structure on the stack.
    let (policy, status) = unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &raw mut parameters)) };
    (policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO && status == 0).then_some(parameters.sched_priority as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_becomes_real_time_and_ordinary_again_or_is_told_that_it_may_not() {
        assert_eq!(fifo_priority(), None);
        match become_class(Class::Fifo(3)) {
            Ok(()) => {
                assert_eq!(fifo_priority(), Some(3));
                let started = std::thread::spawn(fifo_priority).join().unwrap();
                assert_eq!(started, None, "what it starts is ordinary");
                become_class(Class::Normal).unwrap();
                assert_eq!(fifo_priority(), None);
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        }
        assert_eq!(become_class(Class::Fifo(100)).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
