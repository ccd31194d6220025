//! Statistics, and how Quell shows numbers: [`stats`] works them out, [`human`], [`screen`], [`table`], [`bars`],
//! [`chart`] and [`page`] show them.
//!
//! Nothing here knows a policy, a host or a load, and nothing does I/O but [`screen`], which asks the terminal for its
//! width. Everything else is a pure function: equal input gives equal bytes on every machine.

pub mod bars;
pub mod chart;
pub mod human;
pub mod page;
pub mod screen;
pub mod stats;
pub mod table;
pub mod testing;
