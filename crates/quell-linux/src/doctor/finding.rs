//! A finding: what was found where, what comes of it, and the fix.

use serde::Serialize;

/// Subject of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Concern {
    /// Quell, or a part of it, cannot work here.
    Unavailable,
    /// Exclusive CPUs are not quite exclusive.
    Exclusive,
    /// Latency is longer or less steady than it could be.
    Latency,
    /// Shares and classes have another meaning than expected.
    Shares,
    /// A mistake could take the machine.
    Safety,
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The file.
    pub path: String,
    /// Its value.
    pub value: String,
}

/// Something that is worth fixing, or worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Subject.
    pub concern: Concern,
    /// The finding.
    pub what: String,
    /// The files and values that show it.
    pub evidence: Vec<Evidence>,
    /// Consequence.
    pub consequence: String,
    /// Fix.
    pub fix: String,
}

/// What a file says.
pub(super) fn evidence(path: &std::path::Path, value: impl ToString) -> Evidence {
    Evidence { path: path.display().to_string(), value: value.to_string() }
}
