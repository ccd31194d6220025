//! Signals as something to wait for, in a process that does nothing else.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::AgentError;

/// The signals that the guardian hands on.
const HANDED_ON: [libc::c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// The signals, blocked, with a descriptor that reports them.
#[derive(Debug)]
pub(super) struct Signals {
    descriptor: OwnedFd,
    before: libc::sigset_t,
}

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Came {
    pub number: libc::c_int,
    /// It was sent to all processes of the terminal's foreground group, the worker included.
    pub from_terminal: bool,
}

impl Signals {
    /// Blocks the signals in the calling thread; those made later inherit that.
    pub fn catch() -> Result<Signals, AgentError> {
        // SAFETY: both sets are initialised by the calls before they are read, and live during them.
        unsafe {
            let mut set = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in HANDED_ON {
                libc::sigaddset(&mut set, signal);
            }
            if libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before) != 0 {
                return Err(AgentError::last("block signals"));
            }
            let descriptor = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if descriptor < 0 {
                return Err(AgentError::last("wait for signals"));
            }
            Ok(Signals { descriptor: OwnedFd::from_raw_fd(descriptor), before })
        }
    }

    /// Readable when a signal came.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The next signal that came, if one did.
    pub fn next(&self) -> Option<Came> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        let count = rustix::io::read(&self.descriptor, &mut info).ok()?;
        if count != info.len() {
            return None;
        }
        // SAFETY: the kernel filled a whole structure, which is plain numbers; it is read without need for alignment.
        let info = unsafe { info.as_ptr().cast::<libc::signalfd_siginfo>().read_unaligned() };
        Some(Came { number: info.ssi_signo as libc::c_int, from_terminal: info.ssi_code == libc::SI_KERNEL })
    }

    /// Takes the signals as before: in the child, and in the guardian when it is done.
    pub fn release(&self) {
        // SAFETY: the set was filled by `catch` and lives during the call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
