//! Facts read from a machine, plain data.

use std::path::PathBuf;

use quell_model::{CpuSet, Nanos};

/// A value and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Valued<T> {
    /// The file.
    pub path: PathBuf,
    /// The value.
    pub value: T,
}

/// One interrupt line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// The file with the CPUs that it may go to.
    pub path: PathBuf,
    /// Its number.
    pub number: u32,
    /// The device that it belongs to.
    pub name: String,
    /// The CPUs that it may go to.
    pub allowed: CpuSet,
    /// Counts since boot, by CPU number.
    pub counts: Vec<u64>,
}

/// A network queue whose packets other CPUs may process (receive packet steering).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receive {
    /// The file.
    pub path: PathBuf,
    /// The CPUs.
    pub cpus: CpuSet,
}

/// A sleep state of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// The directory of the first CPU that has it.
    pub path: PathBuf,
    /// Its name.
    pub name: String,
    /// Time to wake up.
    pub exit_latency: Nanos,
    /// The CPUs on which it is enabled.
    pub enabled_on: CpuSet,
}

/// May CPUs run faster than their base frequency for a while?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turbo {
    /// The file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// Does the text mean yes?
    pub enabled: bool,
    /// The text to write there to forbid it.
    pub off: &'static str,
}

/// The kernel's sched_ext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedExt {
    /// The directory.
    pub path: PathBuf,
    /// The scheduler that is loaded.
    pub loaded: Option<String>,
}

/// A mounted cgroup v1 hierarchy with a controller that Quell needs in v2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupV1 {
    /// Mount point.
    pub mount: PathBuf,
    /// The controllers.
    pub controllers: String,
}

/// All facts of the doctor. A thing that does not exist on this machine is None or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// CPUs that are online.
    pub online: CpuSet,
    /// The kernel's version.
    pub kernel: Option<Valued<String>>,
    /// Is it compiled with real-time preemption?
    pub real_time_kernel: bool,
    /// The CPUs of `isolcpus=` with domain isolation, as the command line has them.
    pub isolcpus: Option<Valued<String>>,
    /// The first thread that is scheduled by cores: its directory and its cookie.
    pub core_scheduled: Option<Valued<String>>,
    /// Interrupts.
    pub interrupts: Vec<Interrupt>,
    /// The CPUs of unbound kernel work.
    pub workqueues: Option<Valued<CpuSet>>,
    /// Network queues with receive packet steering.
    pub receive: Vec<Receive>,
    /// Sleep states.
    pub idle_states: Vec<IdleState>,
    /// Turbo.
    pub turbo: Option<Turbo>,
    /// The preemption mode that is in force.
    pub preemption: Option<Valued<String>>,
    /// The CPUs of each capacity, with the file of the first of them, the fastest first; empty where all are alike.
    pub speeds: Vec<(Valued<u32>, CpuSet)>,
    /// The firmware's table that describes MPAM (ARM's division of caches and memory bandwidth).
    pub mpam: Option<PathBuf>,
    /// Is autogroup on?
    pub autogroup: Option<Valued<bool>>,
    /// Part of the period that real-time threads may run, in µs; −1: all of it.
    pub rt_runtime_us: Option<Valued<i64>>,
    /// The period, in µs.
    pub rt_period_us: Option<i64>,
    /// Where real-time CPU time is divided among cgroups (RT group scheduling, cgroup v1): the budgets of the topmost cgroups
    /// that are zero. None: it is not.
    pub rt_groups: Option<Vec<PathBuf>>,
    /// Mounted cgroup v1 hierarchies with the controllers cpu or cpuset.
    pub cgroup_v1: Vec<CgroupV1>,
    /// The controllers of the cgroup v2 root; None: no cgroup v2.
    pub cgroup_v2: Option<Valued<String>>,
    /// sched_ext; None: the kernel has none.
    pub sched_ext: Option<SchedExt>,
    /// resctrl: None: not mounted; else does it give out ways, and a memory throttle?
    pub resctrl: Option<Valued<(bool, bool)>>,
    /// Is resctrl in this kernel and processor (`/proc/filesystems`), mounted or not?
    pub has_resctrl: bool,
    /// CPUs with a frequency that can be limited.
    pub frequencies: CpuSet,
    /// CPUs that share a core with another one.
    pub siblings: CpuSet,
    /// Files that are there and could not be read, with the reason.
    pub unread: Vec<String>,
}
