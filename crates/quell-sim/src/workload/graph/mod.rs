//! Requests that pass through several threads and workloads: graphs of stages, with locks, waits and barriers.
//!
//! A stage is done by one thread of a pool, step by step: it works, holds a lock while it works, signals, waits. A
//! stage begins `after` others, or after signals: that is how requests fan out and join without holding a thread. A
//! `wait` is the same within a stage: its thread sleeps until it is woken. So a chain of wake-ups runs over threads and
//! workloads, each from the waker's CPU and counted ([`crate::Kernel::wakers_of`]).
//!
//! `spec` is what scenarios say, `plan` the same with numbers for names, `check` finds what cannot end, `run` has the
//! requests under way; locks are `lock`'s.

mod check;
mod plan;
mod run;
mod spec;
#[cfg(test)]
mod tests;

pub use crate::lock::LockOrder;
pub(crate) use plan::Plans;
pub(crate) use run::{FIRST_STREAM, Graphs};
pub use spec::{Clients, GraphSpec, LockSpec, RequestSpec, StageSpec, Step};
