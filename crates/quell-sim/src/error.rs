use std::path::PathBuf;

use thiserror::Error;

/// Why something cannot be simulated.
#[derive(Debug, Error)]
pub enum SimError {
    /// A scenario makes no sense; the text says what and how to fix it.
    #[error("{0}")]
    Scenario(String),
    /// A scenario's file cannot be read.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A scenario's text is not what it should be.
    #[error("{place}: {problem}")]
    Parse {
        /// File, line and column.
        place: String,
        /// What is wrong.
        problem: String,
    },
}
