use thiserror::Error;

/// Why the agent could not do its work.
#[derive(Debug, Error)]
pub enum AgentError {
    /// A policy needs what this host does not have.
    #[error("policy '{policy}' cannot work on this machine:\n  {}", missing.join("\n  "))]
    Unfit {
        /// The policy.
        policy: &'static str,
        /// What is missing, why, and the mend; one line each.
        missing: Vec<String>,
    },
    /// Two policies would set the same knob.
    #[error("policies '{first}' and '{second}' would both set the knob '{knob}' {on}: give them different workloads")]
    Overlap {
        /// The policy that comes first in the stack.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// The knob's name.
        knob: &'static str,
        /// On which workload.
        on: String,
    },
    /// The host could not be observed or set at all.
    #[error("{0}")]
    Host(String),
    /// A system call failed.
    #[error("{operation}: {source}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}
