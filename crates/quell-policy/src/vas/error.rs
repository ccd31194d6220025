//! Refusals of the analysis, with the fix.

use quell_model::Nanos;
use quell_model::demand::Task;
use thiserror::Error;

/// Reason for the lack of an answer.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum VasError {
    /// No task at all.
    #[error("there is no task; give at least one: OFFSET,WORK,PERIOD")]
    NoTask,
    /// A task outside the model (vas-rtns21 §4.1).
    #[error("task {number} ({task}): {why}")]
    Task {
        /// From 1.
        number: usize,
        /// The task.
        task: Task,
        /// The fault, and the fix.
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
    #[error("task {number} ({task}) brings the hyperperiod to more than {most} releases; {fix}")]
    TooManyReleases {
        /// From 1.
        number: usize,
        /// The task with which it is too much.
        task: Task,
        /// The most.
        most: u64,
        /// Harmonic periods that would do, if there are.
        fix: String,
    },
    /// A Poisson stream that no CPU can serve.
    #[error("{rate} requests a second of {} each are {percent:.2} % of a CPU; it has to stay below 100 %", mean.exact())]
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
    #[error("impossible, at least {}: {why}", least.exact())]
    Impossible {
        /// The least bound that can be kept.
        least: Nanos,
        /// The reason.
        why: &'static str,
    },
    /// With this margin nothing but a whole CPU will do, and that leaves no time to others.
    #[error("impossible: {why}")]
    Never {
        /// The reason.
        why: &'static str,
    },
}
