//! The surroundings of actuators, on which their capabilities depend.

use std::path::Path;

use quell_model::{CpuSet, Support, Topology};

use crate::members::{Level, Members};
use crate::{HostOptions, Roots, cgroup, file};

const NO_CONTROLLERS: &str = "select the workload by a cgroup or unit on a host with cgroup v2 and its cpu and cpuset \
                              controllers (boot with systemd.unified_cgroup_hierarchy=1)";

/// A machine, the configuration's permissions, and the level of the workloads' values.
pub(crate) struct Here<'a> {
    pub roots: &'a Roots,
    pub options: &'a HostOptions,
    pub topology: &'a Topology,
    pub online: CpuSet,
    /// Are values of all workloads set on cgroups, or of some? While there are none, the machine's best is meant.
    all_cgroup: bool,
    some_cgroup: bool,
}

impl Here<'_> {
    pub fn of(members: &Members) -> Here<'_> {
        let Members { roots, options, slots, topology, online, .. } = members;
        let mut levels = slots.iter().flatten().map(|member| member.level).peekable();
        let (all_cgroup, some_cgroup) = match levels.peek() {
            None => {
                let has_cgroups = !options.threads_only && has_controllers(roots);
                (has_cgroups, has_cgroups)
            }
            Some(_) => {
                let (on_cgroups, others): (Vec<Level>, Vec<Level>) = levels.partition(|level| *level == Level::Cgroup);
                (others.is_empty(), !on_cgroups.is_empty())
            }
        };
        Here { roots, options, topology, online: *online, all_cgroup, some_cgroup }
    }

    /// Support for knobs that cgroups have, and threads in another way.
    pub fn by_level(&self, on_threads: &str) -> Support {
        match (self.all_cgroup, self.some_cgroup) {
            (true, _) => Support::Yes,
            (false, true) => Support::Partly(format!("{on_threads}, for workloads without the cgroup controllers")),
            (false, false) => Support::Partly(on_threads.into()),
        }
    }

    /// Support for knobs that only cgroups have.
    pub fn only_cgroup(&self, why: &str) -> Support {
        match (self.all_cgroup, self.some_cgroup) {
            (true, _) => Support::Yes,
            (false, true) => Support::Partly(format!("{why}, so not for workloads without the cgroup controllers")),
            (false, false) => Support::No { why: why.into(), fix: NO_CONTROLLERS.into() },
        }
    }

    /// CAP_SYS_NICE, number 23, in the effective set. A tree of plain files has no capabilities: everything is allowed.
    pub fn has_sys_nice(&self) -> bool {
        if !self.roots.is_this_machine() {
            return true;
        }
        let text = file::read(Path::new("/proc/self/status")).ok().flatten().unwrap_or_default();
        let effective =
            text.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
        effective.is_some_and(|set| set >> 23 & 1 == 1)
    }
}

fn has_controllers(roots: &Roots) -> bool {
    let names = cgroup::controllers_here(&roots.cgroup).ok().flatten().unwrap_or_default();
    ["cpu", "cpuset"].iter().all(|name| names.split(' ').any(|other| other == *name))
}
