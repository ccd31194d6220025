use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Failures to measure the gap.
#[derive(Debug, Error)]
pub enum GapError {
    /// A file could not be read.
    #[error("reading {}: {source}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("writing '{value}' to {}: {source}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The value to be written.
        value: String,
        /// The system's error.
        source: io::Error,
    },
    /// A file is not of the form that the kernel's documents promise.
    #[error("{}: expected {expected}", path.display())]
    Form {
        /// The path.
        path: PathBuf,
        /// The expected form.
        expected: &'static str,
    },
    /// No thread belongs to a workload.
    #[error("workload '{workload}': nothing matches {selectors}; start it first, or correct the selector")]
    NoThread {
        /// Its name.
        workload: String,
        /// Its selectors, as text.
        selectors: String,
    },
    /// Procfs or a cgroup hierarchy could not be read.
    #[error(transparent)]
    Linux(#[from] quell_linux::LinuxError),
    /// Exact measuring was demanded, and the kernel does not allow it.
    #[error(transparent)]
    Trace(#[from] quell_trace::TraceError),
    /// A process of a constructed case could not be started or set up.
    #[error("a process of the constructed case: {step}: {source}")]
    Process {
        /// The failed step.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The measurement was ended early.
    #[error("interrupted")]
    Interrupted,
}
