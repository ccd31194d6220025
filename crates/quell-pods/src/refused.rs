//! Why a container cannot have what its pod asks for.

use quell_model::CpuCount;

/// A strict reservation that cannot be. One line, the fix after the last semicolon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A value that means nothing.
    #[error("quell.dev/reservation={0} is unknown; use strict or standard")]
    Unknown(String),
    /// Label and annotation differ.
    #[error("quell.dev/reservation is {label} by label and {annotation} by annotation; keep one of them")]
    Contradiction {
        /// The label's value.
        label: String,
        /// The annotation's value.
        annotation: String,
    },
    /// Best-effort pods get what is left.
    #[error("the pod is best-effort by quell.dev/class=be and strict by quell.dev/reservation; remove one of them")]
    BestEffort,
    /// The administrator did not name the namespace.
    #[error(
        "pods of namespace {0} may not reserve CPUs; ask the node's administrator to name it, or remove quell.dev/reservation"
    )]
    Namespace(String),
    /// Less than one CPU.
    #[error("container {name} of a strict pod asks for {asked} CPUs, less than one; request 1 CPU")]
    BelowOne {
        /// The container.
        name: String,
        /// What it asks for.
        asked: CpuCount,
    },
    /// CPUs are reserved as wholes.
    #[error("container {name} of a strict pod asks for {asked} CPUs, no whole number; request {} or {} CPUs", asked.floor(), asked.ceil())]
    Fraction {
        /// The container.
        name: String,
        /// What it asks for.
        asked: CpuCount,
    },
    /// More than is left.
    #[error("{0}")]
    Full(String),
}
