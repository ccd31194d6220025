use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Failures of the agent.
#[derive(Debug, Error)]
pub enum AgentError {
    /// This host lacks a need of the policy.
    #[error("policy '{policy}' cannot work on this machine:\n  {}", missing.join("\n  "))]
    Unfit {
        /// The policy.
        policy: &'static str,
        /// The missing parts, reasons and fixes; one line each.
        missing: Vec<String>,
    },
    /// Two policies would set the same knob or rule.
    #[error("policies '{first}' and '{second}' would both set {what} {on}: assign them different workloads")]
    Overlap {
        /// The first of the two policies in the stack.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// The knob or rule.
        what: quell_model::Claimed,
        /// On which workload.
        on: String,
    },
    /// Quell's scheduler ended.
    #[error("{why}")]
    SchedulerEnded {
        /// The kernel's reason.
        why: String,
        /// Did a person or another program ask for it (SysRq-S)?
        by_hand: bool,
        /// When, by the monotonic clock.
        at: quell_model::Nanos,
    },
    /// The host could not be observed or set at all.
    #[error("{0}")]
    Host(String),
    /// The run directory cannot be used.
    #[error("cannot {op} the run directory {}: {why}; {fix}", path.display())]
    RunDirectory {
        /// The failed operation.
        op: &'static str,
        /// The directory.
        path: std::path::PathBuf,
        /// The reason.
        why: String,
        /// The fix.
        fix: String,
    },
    /// There is one agent a host.
    #[error("an agent is already running: process {pid} holds {}; stop it first (systemctl stop quell)", path.display())]
    Running {
        /// Its guardian's process number.
        pid: i32,
        /// The run directory.
        path: std::path::PathBuf,
    },
    /// A lock is held, and it cannot be decided whether by a living Quell.
    #[error("cannot determine whether Quell is running: another process holds {}, and {why}; end that process (`fuser -v FILE`), or remove the file if no Quell runs", lock.display())]
    Unclear {
        /// The lock.
        lock: std::path::PathBuf,
        /// The reason.
        why: String,
    },
    /// What was set stays for now.
    #[error("{source}; what was set is not put back: run `quell restore`, or start Quell again")]
    NotPutBack {
        /// The reason.
        source: Box<AgentError>,
    },
    /// A journal could not be read or written.
    #[error("cannot use the journal {}: {source}", path.display())]
    Journal {
        /// The file.
        path: std::path::PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A newer Quell wrote a journal.
    #[error(
        "the journal {} is of Quell {program}, in format {version}, and this Quell {} reads formats up to {}: nothing is changed; \
         install Quell {program} again and run its `quell restore`",
        path.display(), crate::journal::record::PROGRAM, crate::journal::record::VERSION
    )]
    NewerJournal {
        /// The file.
        path: std::path::PathBuf,
        /// Its format.
        version: u64,
        /// The version of Quell that wrote it.
        program: String,
    },
    /// The guardian was to be started in a process with more than one thread.
    #[error("the guardian must start before any other thread of its process does")]
    Threads,
    /// A system call failed.
    #[error("cannot {operation}: {source}")]
    System {
        /// The failed operation.
        operation: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file or socket could not be used.
    #[error("cannot {operation} {}: {cause}; {fix}", path.display())]
    File {
        /// The failed operation.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's answer.
        cause: io::Error,
        /// The fix.
        fix: String,
    },
    /// No agent answers.
    #[error("no agent answers on {}: {cause}; {fix}", socket.display())]
    NoAgent {
        /// The socket that was tried.
        socket: PathBuf,
        /// The system's answer.
        cause: io::Error,
        /// The fix.
        fix: &'static str,
    },
    /// The agent refused.
    #[error("{error}; {fix}")]
    Refused {
        /// The fault.
        error: String,
        /// The fix.
        fix: String,
        /// Is it busy, or ending? The same request may be answered soon.
        for_now: bool,
    },
    /// It accepted the connection and gave no answer.
    #[error("the agent on {} {what}; see its log (journalctl -u quell), and ask again", socket.display())]
    NoAnswer {
        /// The socket.
        socket: PathBuf,
        /// What it did instead.
        what: String,
    },
    /// The answering program is no agent of this version.
    #[error("unexpected answer on {} ({answer}); does the agent have another version?", socket.display())]
    OddAnswer {
        /// The socket.
        socket: PathBuf,
        /// The answer.
        answer: String,
    },
    /// A record cannot be read.
    #[error("{record}: {why}")]
    Record {
        /// The record.
        record: String,
        /// The reason.
        why: String,
    },
}

impl AgentError {
    /// Would the same configuration fail again, whatever the machine has to give then?
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        use rustix::io::Errno;
        match self {
            AgentError::Unfit { .. } | AgentError::Overlap { .. } => true,
            AgentError::File { cause, .. } => {
                let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC, Errno::AGAIN, Errno::INTR];
                !short.iter().any(|errno| cause.raw_os_error() == Some(errno.raw_os_error()))
            }
            _ => false,
        }
    }

    /// Was there no answer, as while a worker ends and another one starts?
    #[must_use]
    pub fn is_no_answer(&self) -> bool {
        let for_now = matches!(self, AgentError::Refused { for_now: true, .. });
        for_now
            || matches!(self, AgentError::NoAgent { .. } | AgentError::NoAnswer { .. } | AgentError::OddAnswer { .. })
    }

    /// The last system call's failure.
    pub(crate) fn last(operation: &'static str) -> AgentError {
        AgentError::System { operation, source: std::io::Error::last_os_error() }
    }
}
