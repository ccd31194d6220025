use thiserror::Error;

/// Faults of plain data: texts that do not parse, numbers that make no sense.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ModelError {
    /// A CPU list is not of the kernel's form.
    #[error("'{text}' is not a CPU list: expected numbers and ranges such as 0-3,8, each below {max}")]
    CpuList {
        /// The given text.
        text: String,
        /// The first CPU number that is not supported.
        max: usize,
    },
    /// A time span is not a number with a unit.
    #[error("'{text}' is not a time: {why}")]
    Time {
        /// The given text.
        text: String,
        /// The fault, or the fix.
        why: String,
    },
    /// A knob has an invalid value.
    #[error("{what}; {fix}")]
    Knob {
        /// The fault.
        what: String,
        /// A valid choice.
        fix: String,
    },
    /// A topology has no CPU, or a CPU twice.
    #[error("this topology is not possible: {why}")]
    Topology {
        /// The fault.
        why: String,
    },
    /// A text that is not a task.
    #[error("'{text}' is not a task: {why}; write OFFSET,WORK,PERIOD, such as 0,40ms,250ms")]
    Task {
        /// The text.
        text: String,
        /// The fault.
        why: String,
    },
    /// A text that is no distribution of service times.
    #[error("'{text}' is not a service time: {why}; write constant:TIME, exponential:MEAN or lognormal:MEAN:SIGMA")]
    ServiceTime {
        /// The text.
        text: String,
        /// The fault.
        why: String,
    },
    /// A text that is not a stream of requests.
    #[error("'{text}' is not a stream of requests: {why}; write RATE,SERVICE, such as 2k,exponential:100us")]
    Requests {
        /// The text.
        text: String,
        /// The fault.
        why: String,
    },
    /// A workload's numbers contradict each other.
    #[error("workload '{workload}': {why}")]
    Workload {
        /// The workload's name.
        workload: String,
        /// The fault, and the fix.
        why: String,
    },
}
