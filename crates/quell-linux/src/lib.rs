//! The Linux host: observes and sets workloads by cgroup v2, procfs, affinity and scheduling classes.
//!
//! [`LinuxHost`] implements [`quell_model::Host`]. It works on two levels: on cgroups where a workload's cgroups have
//! the cpu and cpuset controllers, on each single thread otherwise. On the thread level it never touches a thread that
//! belongs to no workload that it was given.
//!
//! It is made of parts: `members` (the managed workloads), `sensors` (measurements), `actuators` (settings), and a
//! [`scheduler`] (CPUs of workloads). Below them is a room for each pseudo-filesystem, its root path a parameter:
//! [`sysfs`], [`procfs`], [`cgroup`], [`debugfs`], `resctrl`, `perf` (hardware counters), and [`sched`] for the system
//! calls about threads. [`mod@write`] holds every change as plain data with its inverse.

pub mod cgroup;
pub mod debugfs;
pub mod doctor;
pub mod engines;
pub mod pages;
pub mod procfs;
pub mod resctrl;
pub mod sched;
pub mod scheduler;
pub mod sysfs;
pub mod target;
pub mod write;

#[cfg(any(test, feature = "test-support"))]
pub mod testkit;

mod actuators;
mod clock;
mod error;
mod file;
mod host;
mod limit;
mod members;
mod options;
mod perf;

mod roots;
mod sensors;

pub use clock::{cpu_time, now};
pub use error::LinuxError;
pub use host::{Difference, LinuxHost, Waker, Within, allowance, isolated};
pub use limit::{LimitState, limit_obstacle};
pub use members::{
    Census, Contested, Counted, Departure, Level, Matched, Survey, Why, comm, mounted_hierarchies, program, survey,
    user_id, user_name, users_of,
};
pub use options::HostOptions;
pub use roots::Roots;
pub use sensors::{Exporting, Privilege, privileges};
