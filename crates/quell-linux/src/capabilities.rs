//! What works here, how well, and how to get what does not.

use std::path::Path;

use quell_model::{Capabilities, Key, KnobKind, Support};

use crate::debugfs::preempt;
use crate::members::Level;
use crate::{HostOptions, Roots, cgroup, file, limit};

const CGROUP_MEND: &str = "select the workload by a cgroup or unit on a host with cgroup v2 and its cpu and cpuset \
                           controllers (boot with systemd.unified_cgroup_hierarchy=1)";

const OWN_SCHEDULER: &str = "use Quell's scheduler: machine.scheduler = \"quell\"";

/// Looks what this machine can do. `levels` are those of the attached workloads; while there are none, the machine's
/// best is meant.
pub(crate) fn probe(roots: &Roots, options: &HostOptions, levels: &[Level]) -> Capabilities {
    let has_cgroups = !options.threads_only && has_controllers(roots);
    let all_cgroup = if levels.is_empty() { has_cgroups } else { levels.iter().all(|level| *level == Level::Cgroup) };
    let some_cgroup = if levels.is_empty() { has_cgroups } else { levels.contains(&Level::Cgroup) };
    let mut found = Capabilities { host: "linux".into(), ..Capabilities::default() };
    let why = "the kernel's own scheduler decides who runs where".to_owned();
    found.grants = Support::No { why, mend: OWN_SCHEDULER.into() };
    keys(&mut found, roots, options);
    let by_level = |on_threads: &str| match (all_cgroup, some_cgroup) {
        (true, _) => Support::Yes,
        (false, true) => Support::Partly(format!("{on_threads}, for workloads without the cgroup controllers")),
        (false, false) => Support::Partly(on_threads.into()),
    };
    let only_cgroup = |why: &str| match (all_cgroup, some_cgroup) {
        (true, _) => Support::Yes,
        (false, true) => Support::Partly(format!("{why}, so not for workloads without the cgroup controllers")),
        (false, false) => Support::No { why: why.into(), mend: CGROUP_MEND.into() },
    };
    let interval = options.scan_interval;
    let privileged = has_sys_nice(roots);
    let knobs = &mut found.knobs;
    knobs.insert(KnobKind::Cpus, by_level(&format!("by affinity; new threads are bound within {interval}")));
    knobs.insert(
        KnobKind::Weight,
        by_level("by nice values; autogroups compete as groups, so they count within a session only"),
    );
    knobs.insert(
        KnobKind::IdleOnly,
        by_level("by SCHED_IDLE; autogroups compete as groups, so it works within a session only"),
    );
    knobs.insert(KnobKind::Quota, only_cgroup("single threads have no cycle quota"));
    knobs.insert(KnobKind::Pause, by_level("by SIGSTOP, which the parent of the process sees"));
    knobs.insert(
        KnobKind::Class,
        match privileged {
            true => Support::Partly(format!("threads that are born later get it within {interval}")),
            // Who only looks needs to know what it would take.
            false if options.dry_run => {
                Support::Partly("without CAP_SYS_NICE it could not be set: run as root for that".into())
            }
            false => Support::No {
                why: "real-time classes and smaller nice values need CAP_SYS_NICE".into(),
                mend: "run as root".into(),
            },
        },
    );
    knobs.insert(
        KnobKind::Partition,
        match options.partitions {
            true => only_cgroup("a partition is made of cgroups"),
            false => forbidden("it moves unmanaged work away", "machine.partition"),
        },
    );
    knobs.insert(KnobKind::Preemption, preemption(roots, options));
    for kind in [KnobKind::CacheWays, KnobKind::MaxFrequencyKhz] {
        let why = "this host does not set it".to_owned();
        knobs.insert(kind, Support::No { why, mend: "use the simulator, or leave the policy out".into() });
    }
    found
}

/// What the host does by itself with what workloads' owners say.
fn keys(found: &mut Capabilities, roots: &Roots, options: &HostOptions) {
    let limit = match limit::can_be_here(roots, options) {
        true => Support::Partly("by cpu.max, of workloads that are one cgroup with the cpu controller".into()),
        false => Support::No {
            why: "cgroup v2 has no cpu controller here".into(),
            mend: "boot with systemd.unified_cgroup_hierarchy=1".into(),
        },
    };
    found.keys.insert(Key::Limit, limit);
    let why = "threads lose their CPUs to the kernel's own scheduler, which gives no warning".to_owned();
    found.keys.insert(Key::Grace, Support::No { why, mend: OWN_SCHEDULER.into() });
}

fn preemption(roots: &Roots, options: &HostOptions) -> Support {
    if !options.preemption_mode {
        return forbidden("it concerns the whole machine", "machine.preemption");
    }
    let path = preempt::path(&roots.sys);
    if path.exists() {
        return Support::Yes;
    }
    Support::No {
        why: format!("{} is not there", path.display()),
        mend: "mount debugfs and use a kernel with CONFIG_PREEMPT_DYNAMIC".into(),
    }
}

fn forbidden(why: &str, key: &str) -> Support {
    Support::No {
        why: format!("{why} and is not allowed"),
        mend: format!("allow it with {key} = true in the configuration"),
    }
}

fn has_controllers(roots: &Roots) -> bool {
    let names = cgroup::controllers_here(&roots.cgroup).ok().flatten().unwrap_or_default();
    ["cpu", "cpuset"].iter().all(|name| names.split(' ').any(|other| other == *name))
}

/// CAP_SYS_NICE, number 23, in the effective set. A tree of plain files has no capabilities: everything is allowed.
fn has_sys_nice(roots: &Roots) -> bool {
    if !roots.is_this_machine() {
        return true;
    }
    let text = file::read(Path::new("/proc/self/status")).ok().flatten().unwrap_or_default();
    let effective = text.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    effective.is_some_and(|set| set >> 23 & 1 == 1)
}
