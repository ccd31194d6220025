//! What the kernel has in debugfs, which is mounted below sysfs.

pub mod preempt;
