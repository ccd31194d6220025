//! How a connection ends without an error.

use std::fmt;

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The runtime closed it: it ended, or it disconnected the plug-in.
    Runtime,
    /// [`Runtime::close`](crate::Runtime::close) closed it.
    Closed,
}

impl fmt::Display for Ended {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str(match self {
            Ended::Runtime => "the runtime closed the connection",
            Ended::Closed => "the plug-in closed the connection",
        })
    }
}
