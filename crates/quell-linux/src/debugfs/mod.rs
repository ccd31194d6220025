//! The kernel's files in debugfs, which is mounted below sysfs.

pub mod preempt;
