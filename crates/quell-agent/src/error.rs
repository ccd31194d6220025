use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why the agent could not do its work.
#[derive(Debug, Error)]
pub enum AgentError {
    /// A policy needs what this host does not have.
    #[error("policy '{policy}' cannot work on this machine:\n  {}", missing.join("\n  "))]
    Unfit {
        /// The policy.
        policy: &'static str,
        /// What is missing, why, and the mend; one line each.
        missing: Vec<String>,
    },
    /// Two policies would set the same knob.
    #[error("policies '{first}' and '{second}' would both set the knob '{knob}' {on}: give them different workloads")]
    Overlap {
        /// The policy that comes first in the stack.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// The knob's name.
        knob: &'static str,
        /// On which workload.
        on: String,
    },
    /// The host could not be observed or set at all.
    #[error("{0}")]
    Host(String),
    /// A system call failed.
    #[error("{operation}: {source}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file or socket could not be used.
    #[error("cannot {operation} {}: {source}; {mend}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// What to do about it.
        mend: String,
    },
    /// No agent answers.
    #[error("no agent answers on {}: {source}; {mend}", socket.display())]
    NoAgent {
        /// The socket that was tried.
        socket: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// What to do about it.
        mend: &'static str,
    },
    /// The agent refused.
    #[error("{error}; {mend}")]
    Refused {
        /// What is wrong.
        error: String,
        /// What to do about it.
        mend: String,
    },
    /// What answered is no agent of this version.
    #[error("the answer on {} is not understood ({answer}); is the agent of another version?", socket.display())]
    OddAnswer {
        /// The socket.
        socket: PathBuf,
        /// What came.
        answer: String,
    },
    /// A record cannot be read.
    #[error("{record}: {why}")]
    Record {
        /// Which.
        record: String,
        /// Why not.
        why: String,
    },
}
