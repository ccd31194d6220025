//! sysfs: what the machine is made of.

mod topology;

pub use topology::{online, possible, topology};
