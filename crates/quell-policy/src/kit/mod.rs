//! What policies have in common: each file one idea, none knows a policy.
//!
//! - [`wanted`]: wanted → difference → plan → outcome → settled, or tried again;
//! - [`retry`]: when something refused is tried again;
//! - [`once`]: a remark that is made once;
//! - [`periodic`]: something that is looked at every so often;
//! - [`profile`]: what a workload uses, alone and beside others;
//! - [`contention`]: the difference of the two, and the dominant one;
//! - [`ladder`]: which means against it comes next.

pub mod contention;
pub mod ladder;
pub mod once;
pub mod periodic;
pub mod profile;
pub mod retry;
pub mod wanted;
