//! Common parts of policies: each file one idea, none knows a policy.
//!
//! - [`wanted`]: wanted → difference → plan → outcome → settled, or tried again;
//! - [`retry`]: the time of the next try after a refusal;
//! - [`met`]: whether the workloads are those that were met;
//! - [`once`]: a remark that is made once;
//! - [`periodic`]: sampling at intervals;
//! - [`profile`]: a workload's usage, alone and beside others;
//! - [`contention`]: the difference of the two, and the dominant one;
//! - [`noise`]: differences that say nothing;
//! - [`ladder`]: the next technique against it;
//! - [`suspects`]: who of several disturbs, by pauses;
//! - [`trial`]: a technique tried, its effect verified, undone if there is none.

pub mod contention;
pub mod ladder;
pub mod met;
pub mod noise;
pub mod once;
pub mod periodic;
pub mod profile;
pub mod retry;
pub mod suspects;
pub mod trial;
pub mod wanted;
