//! sysfs: the machine's units.

mod topology;

pub use topology::{online, possible, topology};
