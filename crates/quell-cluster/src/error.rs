use thiserror::Error;

/// Faults of scenarios and of policies' names.
#[derive(Debug, Error, PartialEq)]
pub enum ClusterError {
    /// A scenario is not of its format.
    #[error("the scenario: {0}")]
    Format(String),
    /// A scenario makes no sense.
    #[error("{what}: {why}; {fix}")]
    Scenario {
        /// The place.
        what: String,
        /// The fault.
        why: String,
        /// A valid choice.
        fix: String,
    },
    /// A cluster that lives cannot be had.
    #[error("{what}: {why}")]
    Live {
        /// The file.
        what: String,
        /// The fault, and the fix.
        why: String,
    },
    /// There is no such policy.
    #[error("there is no cluster policy '{name}'; there are: {known}")]
    Policy {
        /// The given name.
        name: String,
        /// The names that exist.
        known: String,
    },
}
