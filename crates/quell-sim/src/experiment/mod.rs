//! Experiments with a known outcome, for tests and for `quell reproduce`: simulated queues and what theory says about
//! them, and task sets whose schedules SimSo has worked out.

pub mod task_sets;
