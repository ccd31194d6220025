//! The request clock of threads that take one request after the other without sleeping.

use libbpf_rs::btf::{self, Btf};

use crate::ScxError;
use crate::program::{Grant, refused};

/// Calls that give their thread something to work on if they return more than zero. A futex is not among them: who waits
/// for one and gets it has slept, which is seen without this.
const GIVING: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
];

/// Has the kernel the tracepoint at the end of system calls?
pub(crate) fn is_traceable(types: &Btf<'_>) -> bool {
    types.type_by_name::<btf::types::Typedef<'_>>("btf_trace_sys_exit").is_some()
}

/// Can this kernel report when a system call ends? False if it does not say.
pub(crate) fn can_be_watched() -> bool {
    Btf::from_vmlinux().is_ok_and(|types| is_traceable(&types))
}

/// The calls as the bits of the program's table.
pub(crate) fn giving_calls<const WORDS: usize>() -> [u64; WORDS] {
    let mut table = [0; WORDS];
    for &call in GIVING {
        table[call as usize / 64] |= 1 << (call % 64);
    }
    table
}

impl Grant {
    /// From now on a request also begins when a system call gives a busy thread of a latency-critical workload something to
    /// work on. It costs every system call of the machine a few instructions.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn watch_requests(&mut self) -> Result<(), ScxError> {
        if self.requests.is_some() || !self.can_watch_requests() {
            return Ok(());
        }
        let step = "listening to the ends of system calls";
        self.requests = Some(self.kernel.listen("request_given").map_err(refused(step))?);
        Ok(())
    }

    /// From now on a request begins when its thread wakes up, and no system call costs anything.
    pub fn ignore_requests(&mut self) {
        self.requests = None;
    }

    /// Has this kernel what [`Grant::watch_requests`] takes?
    #[must_use]
    pub fn can_watch_requests(&self) -> bool {
        self.kernel.has("request_given")
    }
}
