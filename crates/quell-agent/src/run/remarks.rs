//! Facts about a workload that are no state of it.

use quell_linux::{LinuxHost, Within};
use quell_model::WorkloadId;

use crate::wire::{Remark, RemarkKind};

/// The facts about an attached workload.
#[must_use]
pub fn of(host: &LinuxHost, id: WorkloadId) -> Vec<Remark> {
    host.idle_within(id).map(not_idle_only).into_iter().collect()
}

/// Idle-only does not count on the whole machine.
#[must_use]
pub fn not_idle_only(within: Within) -> Remark {
    let text = match within {
        Within::Session => {
            "SCHED_IDLE counts within its session; with other sessions it competes as an equal: start it with setsid, or \
             sysctl kernel.sched_autogroup_enabled=0"
        }
        Within::Cgroup => {
            "SCHED_IDLE counts within its cgroup; with other cgroups it competes as an equal: select it by that cgroup or unit"
        }
    };
    Remark { about: RemarkKind::NotIdleOnly, text: text.to_owned() }
}
