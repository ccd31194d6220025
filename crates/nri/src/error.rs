//! What goes wrong, with the operation and, where there is one, the fix.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::wire::Malformed;

/// Why a plug-in is not connected, or is no longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No runtime answers on the socket.
    #[error("connect to {}: {source}; {}", path.display(), connect_hint(source))]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The plug-in's name is none that NRI allows.
    #[error("the plug-in's name {0:?} is not valid: use letters, digits, '-', '_', '.' and '+'")]
    Name(String),
    /// The plug-in's index is none that NRI allows.
    #[error("the plug-in's index {0:?} is not valid: use two digits, as in 10; plug-ins are called in this order")]
    Index(String),
    /// The runtime started this program as a plug-in, and what it says in the environment makes no sense.
    #[error(
        "{variable}={value:?} in the environment: {reason}; it is set by a runtime that starts a plug-in: unset it elsewhere"
    )]
    Environment {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The runtime answered a call with an error.
    #[error("{method}: the runtime refuses: {message} (code {code})")]
    Refused {
        /// The call.
        method: &'static str,
        /// The code of ttRPC, which is that of gRPC.
        code: i32,
        /// The runtime's words.
        message: String,
    },
    /// The runtime did not answer a call in time.
    #[error("{method}: no answer from the runtime within {limit:?}; it may be busy with a request: try again later")]
    Late {
        /// The call.
        method: &'static str,
        /// The time allowed.
        limit: Duration,
    },
    /// The connection ended before the runtime answered a call.
    #[error("{method}: the runtime closed the connection; its log says why: connect again")]
    Gone {
        /// The call.
        method: &'static str,
    },
    /// A call was made while the plug-in handles a request, on the same thread: some runtimes would never answer it.
    #[error(
        "{method} while a request is handled: return the updates with its answer, or send them from another thread"
    )]
    WithinRequest {
        /// The call.
        method: &'static str,
    },
    /// A call is longer than ttRPC allows.
    #[error("{method}: {source}: send fewer containers at a time")]
    TooLong {
        /// The call.
        method: &'static str,
        /// How long.
        source: Malformed,
    },
    /// What came from the runtime is not NRI; the connection was closed.
    #[error("what the runtime sends is not NRI: {0}; is it the socket of NRI?")]
    Malformed(#[from] Malformed),
    /// The runtime sends requests faster than the plug-in handles them; the connection was closed.
    #[error(
        "{requests} requests of {bytes} bytes wait for the plug-in, more than are kept: it is too slow, or the runtime is broken"
    )]
    Overflow {
        /// Requests.
        requests: usize,
        /// Their length.
        bytes: usize,
    },
    /// The connection failed.
    #[error("{operation} the connection to the runtime: {source}")]
    Socket {
        /// What was tried.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// What to do about a connection that cannot be made.
fn connect_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "the socket is root's: run the plug-in as root",
        io::ErrorKind::TimedOut => "the runtime is busy with another plug-in, or hangs: try again later",
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => "a socket's path has 107 bytes at most",
        _ => {
            "is the runtime running, with NRI on? (containerd from 2.0 and CRI-O from 1.30 on have it on; older ones: `disable = false` \
             below `io.containerd.nri.v1.nri`, `enable_nri = true` below `crio.nri`)"
        }
    }
}

/// Does this error say that the other side has gone?
pub(crate) fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof)
}
