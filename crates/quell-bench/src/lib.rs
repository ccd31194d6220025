//! Open-loop load, antagonists, statistics and reports: everything that Quell measures with.
//!
//! Nothing here knows a policy or a host. [`load`] drives a server, [`antagonist`] takes from it, [`stats`] works the numbers out, [`human`],
//! [`screen`], [`table`], [`chart`] and [`report`] show them.

pub mod antagonist;
pub mod cache;
pub mod chart;
pub mod clock;
mod error;
pub mod human;
pub mod load;
pub mod memory;
pub mod report;
pub mod sched;
pub mod screen;
pub mod stats;
pub mod table;

pub use error::{Error, Result};
