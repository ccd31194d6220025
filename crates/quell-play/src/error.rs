//! What can go wrong.

use std::io;

use thiserror::Error;

/// What can go wrong when a workload is played.
#[derive(Debug, Error)]
pub enum Error {
    /// A workload does what no real thread does here.
    #[error("workload '{workload}' cannot be played: {what}; `quell-lab run` can simulate it")]
    Unplayable {
        /// Its name.
        workload: String,
        /// What it asks for.
        what: &'static str,
    },
    /// The system refused something to a thread.
    #[error("workload '{workload}': cannot {what}: {why}")]
    System {
        /// Its name.
        workload: String,
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        why: io::Error,
    },
}

/// Or what went wrong.
pub type Result<T> = std::result::Result<T, Error>;
