//! The fair class: EEVDF and CFS over a tree of groups.

mod average;
mod run;
mod tree;
mod virtual_time;

pub(crate) use average::Average;
pub(crate) use virtual_time::{Arrival, Departure};
