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
    /// A node's report is none.
    #[error("the report of node {node}: {why}")]
    Report {
        /// The node.
        node: String,
        /// What is wrong with it.
        why: String,
    },
    /// A call to the API server failed.
    #[error("cannot {what} {object}: {why}")]
    Kubernetes {
        /// The operation.
        what: String,
        /// The object.
        object: String,
        /// The fault, and the fix where there is one.
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
