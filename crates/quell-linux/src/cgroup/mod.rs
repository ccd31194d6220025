//! cgroup v2 (Documentation/admin-guide/cgroup-v2.rst): one file, one value.

mod allowance;
mod controllers;
mod files;
mod named;
mod namespace;
mod own;
mod spelling;
mod stat;
mod tree;
mod usage;
mod version1;

pub use allowance::{Allowed, Reading};
pub use controllers::{controllers_given, controllers_here, give_controllers};
pub use files::{read_file, verify_partition, write_file};
pub use named::{Tree, is_pattern, line_contains, named, pattern_error};
pub use namespace::join_that_of_process_1;
pub use own::{Controller, OwnGroup};
pub use spelling::{container_in, unit_of};
pub use stat::{CpuStat, Pressure, cpu_stat, pressure};
pub use tree::{Group, Kind, members, subtree};
pub use usage::{UsageFile, most_open_files};
pub use version1::{BoundsV1, CpuV1, ReadingV1};
