//! Open-loop load, antagonists, statistics and reports: everything that Quell measures with.
//!
//! Nothing here knows a policy or a host. [`load`] drives a server, [`stats`] works the numbers out, [`human`] and
//! [`table`] show them.

pub mod clock;
mod error;
pub mod human;
pub mod load;
pub mod stats;
pub mod table;

pub use error::{Error, Result};
