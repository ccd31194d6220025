use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why the gap could not be measured.
#[derive(Debug, Error)]
pub enum GapError {
    /// A file could not be read.
    #[error("reading {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("writing '{value}' to {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not of the form that the kernel's documents promise.
    #[error("{}: expected {expected}", path.display())]
    Form {
        /// Which.
        path: PathBuf,
        /// What was expected.
        expected: &'static str,
    },
    /// No thread belongs to a workload.
    #[error("workload '{workload}': nothing matches {selectors}; start it first, or correct the selector")]
    Nobody {
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
        /// What was tried.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The measurement was ended early.
    #[error("interrupted")]
    Interrupted,
}
