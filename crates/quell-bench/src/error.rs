//! Failures of this crate. Every message names the object, the operation and the fix.

use std::io;
use std::path::{Path, PathBuf};

/// The crate's only error type.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A load or an antagonist was described in a way that cannot be run.
    #[error("{field}: {problem}; {fix}")]
    Spec {
        /// The field or option at fault.
        field: &'static str,
        /// The fault.
        problem: String,
        /// A valid form.
        fix: &'static str,
    },

    /// No connection to the server under load.
    #[error(
        "cannot connect to {address}: {reason}; start the server (for example `memcached -u nobody -l 127.0.0.1`) or correct --target"
    )]
    Connect {
        /// The address as the user wrote it.
        address: String,
        /// The operating system's reason.
        reason: io::Error,
    },

    /// The server closed the connection or answered with something that is not its protocol.
    #[error("{address}: {problem}; {fix}")]
    Protocol {
        /// The address as the user wrote it.
        address: String,
        /// The observation.
        problem: String,
        /// The fix.
        fix: String,
    },

    /// The server speaks another protocol than it was asked in.
    #[error("{address}: {problem}; it speaks {speaks}: give --protocol {speaks}")]
    OtherProtocol {
        /// The address as the user wrote it.
        address: String,
        /// The observation.
        problem: String,
        /// The protocol that it speaks.
        speaks: &'static str,
    },

    /// A system call failed.
    #[error("{operation} ({object}): {reason}")]
    Io {
        /// The failed operation.
        operation: &'static str,
        /// On which file, address or thread.
        object: String,
        /// The operating system's reason.
        reason: io::Error,
    },

    /// The thread may not become real-time.
    #[error(
        "cannot make the generator SCHED_FIFO {priority}: {reason}; run as root or with CAP_SYS_NICE, give its cgroup cpu.rt_runtime_us where the kernel has RT group scheduling, or leave the real-time option out"
    )]
    Realtime {
        /// The priority asked for.
        priority: u8,
        /// The operating system's reason.
        reason: io::Error,
    },

    /// A file has a form that this crate does not know.
    #[error("{path}: {problem}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        problem: String,
    },
}

/// The crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An [`Error::Io`] with an operation and the path that it was tried on.
    pub(crate) fn file(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let object = path.display().to_string();
        move |reason| Self::Io { operation, object, reason }
    }

    /// An [`Error::Io`] with an operation on something that is not a file.
    pub(crate) fn system<E: Into<io::Error>>(
        operation: &'static str,
        object: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let object = object.into();
        move |reason| Self::Io { operation, object, reason: reason.into() }
    }
}
