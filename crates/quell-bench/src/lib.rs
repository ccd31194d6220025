//! Open-loop load and antagonists: what Quell measures with.
//!
//! Nothing here knows a policy or a host. [`load`] drives a server, [`antagonist`] takes from it; `quell-report` works
//! their numbers out and shows them, [`figures`] are those that only they need.

pub mod antagonist;
pub mod cache;
mod error;
pub mod figures;
pub mod load;
pub mod memory;
pub mod sched;
pub mod steal;

pub use error::{Error, Result};
