//! The fair class: EEVDF and CFS over a tree of groups.

mod average;
#[cfg(test)]
mod lag_tests;
mod run;
mod tree;
mod virtual_time;

pub(crate) use average::Average;
pub(crate) use virtual_time::{Arrival, Departure};
