//! Open-loop load and antagonists: Quell's means of measurement.
//!
//! Nothing here depends on a policy or a host. [`load`] drives a server, [`antagonist`] takes resources from it;
//! `quell-report` evaluates and shows their numbers, [`figures`] are those that only they need.

pub mod antagonist;
pub mod cache;
mod error;
pub mod figures;
pub mod load;
pub mod memory;
pub mod sched;
pub mod settling;
pub mod steal;

pub use error::{Error, Result};
