use std::io;
use std::path::{Path, PathBuf};

use quell_model::{ModelError, Refusal, foreign};
use thiserror::Error;

/// Failures of operations on a Linux machine. A vanished object is no error but a value.
#[derive(Debug, Error)]
pub enum LinuxError {
    /// A file or directory could not be read or written.
    #[error("cannot {op} {}: {source}{}", foreign::path(path), fix_of(source))]
    Io {
        /// The failed operation.
        op: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file holds something else than expected.
    #[error("{} holds '{}', expected {expected}", foreign::path(path), foreign::text(text))]
    Parse {
        /// The file.
        path: PathBuf,
        /// Its text.
        text: String,
        /// The expected form.
        expected: &'static str,
    },
    /// A cgroup file refused a value.
    #[error("{} does not accept '{value}': {source}; {fix}", foreign::path(path))]
    Cgroup {
        /// The file.
        path: PathBuf,
        /// The written value.
        value: String,
        /// The system's answer.
        source: io::Error,
        /// The fix.
        fix: &'static str,
    },
    /// A cpuset partition did not become valid.
    #[error("{} reads '{verdict}' after '{value}' was written; {fix}", foreign::path(path))]
    Partition {
        /// The file.
        path: PathBuf,
        /// The written value.
        value: String,
        /// The kernel's verdict.
        verdict: String,
        /// The fix.
        fix: &'static str,
    },
    /// resctrl refused a change.
    #[error("cannot set {} to '{value}': {source}{status}; {fix}", foreign::path(path))]
    Resctrl {
        /// The file or directory.
        path: PathBuf,
        /// The value.
        value: String,
        /// The system's answer.
        source: io::Error,
        /// The text of `last_cmd_status`, in brackets.
        status: String,
        /// The fix.
        fix: &'static str,
    },
    /// A call about a thread or process failed.
    #[error("cannot {op} thread {tid} to {value}: {source}; {fix}")]
    Thread {
        /// The failed operation.
        op: &'static str,
        /// On which thread.
        tid: i32,
        /// The value that was wanted.
        value: String,
        /// The system's answer.
        source: io::Error,
        /// The fix.
        fix: &'static str,
    },
    /// A selector matches nothing.
    #[error("workload '{workload}': {selector} matches nothing; {fix}")]
    NoMatch {
        /// The workload.
        workload: String,
        /// The selector.
        selector: String,
        /// The fix.
        fix: String,
    },
    /// Plain data makes no sense.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The kernel's tracepoints do not provide a signal that a policy needs.
    #[error(transparent)]
    Trace(#[from] quell_trace::TraceError),
    /// The scheduler that hands out CPUs.
    #[error(transparent)]
    Scheduler(Box<dyn std::error::Error + Send + Sync>),
    /// The kernel ended the scheduler that hands out CPUs, and Linux's runs everything; or it is to end.
    #[error("{why}")]
    SchedulerEnded {
        /// The kernel's reason.
        why: String,
        /// Did a person or another program ask for it (SysRq-S)?
        by_hand: bool,
        /// When, by the monotonic clock.
        at: quell_model::Nanos,
    },
    /// There is no workload with this number.
    #[error("no workload has the number {0}")]
    UnknownWorkload(u32),
    /// This host cannot do it here.
    #[error("{what}; {fix}")]
    Unsupported {
        /// The missing thing, and the reason.
        what: String,
        /// The way to get it.
        fix: String,
    },
    /// The configuration does not allow it.
    #[error("{0}")]
    Forbidden(String),
    /// The journal could not record a write, so the write was not made.
    #[error("the journal cannot record the change of {write}: {source}; nothing was changed")]
    Journal {
        /// The write.
        write: String,
        /// The reason.
        source: io::Error,
    },
    /// A plan failed and could not be taken back completely.
    #[error("{cause}; these could not be put back: {}", left.join("; "))]
    Rollback {
        /// The plan's failure.
        cause: Box<LinuxError>,
        /// Places that still have the plan's value, with reasons.
        left: Vec<String>,
    },
}

impl LinuxError {
    /// Does it say no more than that nothing matches a workload's selectors now?
    #[must_use]
    pub fn is_absence(&self) -> bool {
        matches!(self, LinuxError::NoMatch { .. })
    }

    pub(crate) fn io(op: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> LinuxError {
        let path = path.as_ref().to_owned();
        move |source| LinuxError::Io { op, path, source }
    }

    pub(crate) fn parse(path: impl AsRef<Path>, text: &str, expected: &'static str) -> LinuxError {
        LinuxError::Parse { path: path.as_ref().to_owned(), text: text.trim().to_owned(), expected }
    }

    pub(crate) fn unsupported(what: impl Into<String>, fix: impl Into<String>) -> LinuxError {
        LinuxError::Unsupported { what: what.into(), fix: fix.into() }
    }
}

impl From<LinuxError> for Refusal {
    fn from(error: LinuxError) -> Refusal {
        match error {
            LinuxError::Unsupported { .. } => Refusal::Unsupported(error.to_string()),
            LinuxError::Forbidden(what) => Refusal::Forbidden(what),
            _ => Refusal::System(error.to_string()),
        }
    }
}

/// Does this error say that the thing is gone? ENODEV is how a removed cgroup's open file answers.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::ENODEV))
}

fn fix_of(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => "; run as root, or have the cgroup delegated to this user",
        _ => "",
    }
}
