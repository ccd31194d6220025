//! Facts about a workload that are no state of it.

use quell_linux::{Exporting, LinuxHost, Within};
use quell_model::{WorkloadId, amount};

use crate::wire::{Remark, RemarkKind};

/// The facts about an attached workload. `real_time`: it is to be real-time.
#[must_use]
pub fn of(host: &LinuxHost, id: WorkloadId, real_time: bool) -> Vec<Remark> {
    let is_closed = real_time && host.allowance(id).is_some_and(|allowance| allowance.no_realtime);
    let all = [
        host.is_by_thread(id).then(by_thread),
        is_closed.then(no_real_time_budget),
        host.idle_within(id).map(not_idle_only),
        exports(host.exporting(id)),
    ];
    all.into_iter().flatten().collect()
}

/// A thread is a member, and not its process.
#[must_use]
pub fn by_thread() -> Remark {
    let text = "its cgroup is threaded: membership is by thread";
    Remark { about: RemarkKind::Threaded, text: text.to_owned() }
}

/// RT group scheduling gives its cgroup no real-time CPU time.
#[must_use]
pub fn no_real_time_budget() -> Remark {
    let text = "its cgroup has no real-time budget (cpu.rt_runtime_us is 0), so no policy can make it SCHED_FIFO; guard gives it \
                nice -20 and short slices instead, which protects less: write a budget there";
    Remark { about: RemarkKind::NoRealTimeBudget, text: text.to_owned() }
}

/// Its programs cooperate; None: none does.
#[must_use]
pub fn exports(of: Exporting) -> Option<Remark> {
    let processes = amount(of.processes, "process reports", "processes report");
    let workers = amount(of.workers, "worker", "workers");
    let strangers = match of.strangers {
        0 => String::new(),
        count => format!("; the thread numbers of {count} are not its own"),
    };
    let text = format!("{processes} how long requests wait, of {workers}{strangers}");
    (of.processes > 0).then_some(Remark { about: RemarkKind::Exports, text })
}

/// Idle-only does not count on the whole machine.
#[must_use]
pub fn not_idle_only(within: Within) -> Remark {
    let text = match within {
        Within::Session => {
            "SCHED_IDLE applies within its session only; against other sessions it competes at full weight: start it with setsid, or \
             sysctl kernel.sched_autogroup_enabled=0"
        }
        Within::Cgroup => {
            "SCHED_IDLE applies within its cgroup only; against other cgroups it competes at full weight: select it by that cgroup or unit"
        }
    };
    Remark { about: RemarkKind::NotIdleOnly, text: text.to_owned() }
}
