//! What the analysis refuses, and the mend.

use quell_model::Nanos;
use thiserror::Error;

use super::exact;
use super::task::Task;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum VasError {
    /// No task at all.
    #[error("there is no task; give at least one: OFFSET,WORK,PERIOD")]
    NoTask,
    /// A text that is no task.
    #[error("'{text}' is no task: {why}; write OFFSET,WORK,PERIOD, such as 0,40ms,250ms")]
    NotATask {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A text that is no distribution.
    #[error("'{text}' is no service time: {why}; write constant:TIME, exponential:MEAN or lognormal:MEAN:SIGMA")]
    NotAService {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A task outside the model (vas-rtns21 §4.1).
    #[error("task {number} ({task}): {why}")]
    Task {
        /// From 1.
        number: usize,
        /// The task.
        task: Task,
        /// What is wrong with it, and the mend.
        why: &'static str,
    },
    /// More work than a CPU does.
    #[error("task {number} ({task}) brings the utilisation to {percent:.2} %; it has to stay below 100 %")]
    Overload {
        /// From 1.
        number: usize,
        /// The task with which it is too much.
        task: Task,
        /// The utilisation up to it, per cent.
        percent: f64,
    },
    /// A hyperperiod that cannot be looked at as a whole.
    #[error("task {number} ({task}) brings the hyperperiod to more than {most} releases; {mend}")]
    TooManyReleases {
        /// From 1.
        number: usize,
        /// The task with which it is too much.
        task: Task,
        /// The most.
        most: u64,
        /// Harmonic periods that would do, if there are.
        mend: String,
    },
    /// A Poisson stream that no CPU can serve.
    #[error("{rate} requests a second of {} each are {percent:.2} % of a CPU; it has to stay below 100 %", exact(*mean))]
    Stream {
        /// Requests a second.
        rate: f64,
        /// The mean service time.
        mean: Nanos,
        /// Utilisation, per cent.
        percent: f64,
    },
    /// A value outside its range.
    #[error("{what}")]
    Value {
        /// The value and its range.
        what: String,
    },
    /// No interface keeps the bound.
    #[error("impossible, at least {}: {why}", exact(*least))]
    Impossible {
        /// The least bound that can be kept.
        least: Nanos,
        /// What needs so much.
        why: &'static str,
    },
    /// With this margin nothing but a whole CPU will do, and that leaves no time to others.
    #[error("impossible: {why}")]
    Never {
        /// What needs so much.
        why: &'static str,
    },
}
