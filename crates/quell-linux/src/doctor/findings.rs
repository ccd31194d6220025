//! Judging the facts: each finding has its evidence, its consequence, and the fix.

use quell_model::{CpuSet, Nanos};

use super::facts::{Facts, Interrupt, Valued};
use super::finding::{Concern, Evidence, Finding, evidence};
use super::{arm, mask};

/// A CPU that sleeps deeper than this wakes up noticeably late for a service whose requests take microseconds; the
/// states above it are the package-wide ones on most machines (our threshold).
const DEEP: Nanos = Nanos::from_micros(10);
/// Interrupts named in a finding.
const NAMED: usize = 4;

/// The findings on a machine on which these CPUs are meant to be exclusive to a workload.
#[must_use]
pub fn findings(facts: &Facts, exclusive: &CpuSet) -> Vec<Finding> {
    let rest = facts.online.difference(exclusive);
    let on = |cpus: &CpuSet| !cpus.is_disjoint(exclusive);
    let mut found = Vec::new();
    found.extend(isolated(facts));
    found.extend(core_scheduled(facts));
    found.extend(sched_ext(facts));
    found.extend(cgroups(facts));
    found.extend(resctrl(facts));
    found.extend(arm::mpam(facts));
    found.extend(arm::speeds(facts));
    found.extend(frequencies(facts));
    found.extend(interrupts(facts, exclusive, &rest));
    found.extend(workqueues(facts, &on, &rest));
    found.extend(receive(facts, &on, &rest));
    found.extend(siblings(facts, exclusive));
    found.extend(idle_states(facts, &on));
    found.extend(turbo(facts));
    found.extend(preemption(facts));
    found.extend(autogroup(facts));
    found.extend(rt_throttling(facts));
    found.extend(rt_groups(facts));
    found
}

/// The fix where all CPUs are meant to be exclusive, and so nothing can be moved anywhere.
const CHOOSE: &str = "keep some CPUs for the rest: `quell doctor --cpus LIST` says how to clear those in the list";

fn isolated(facts: &Facts) -> Option<Finding> {
    let isolcpus = facts.isolcpus.as_ref()?;
    Some(Finding {
        concern: Concern::Unavailable,
        what: "CPUs are isolated at boot".into(),
        evidence: vec![evidence(&isolcpus.path, &isolcpus.value)],
        consequence: "the kernel loads no sched_ext scheduler, and threads on these CPUs are not balanced".into(),
        fix: "boot without isolcpus=; a policy gives CPUs to workloads while the machine runs".into(),
    })
}

fn core_scheduled(facts: &Facts) -> Option<Finding> {
    let thread = facts.core_scheduled.as_ref()?;
    Some(Finding {
        concern: Concern::Latency,
        what: "threads are scheduled by cores (core scheduling)".into(),
        evidence: vec![evidence(&thread.path, &thread.value)],
        consequence: "the kernel leaves a core's other CPU idle beside a thread with another cookie, whatever a grant \
                      says; Quell's own scheduler grants no CPU to a workload that has such a thread"
            .into(),
        fix: "start the program without core scheduling cookies (its own setting, or coresched(1))".into(),
    })
}

fn sched_ext(facts: &Facts) -> Option<Finding> {
    let Some(sched_ext) = &facts.sched_ext else {
        let kernel = facts.kernel.as_ref().map(|kernel| evidence(&kernel.path, &kernel.value));
        return Some(Finding {
            concern: Concern::Unavailable,
            what: "the kernel has no sched_ext".into(),
            evidence: kernel.into_iter().collect(),
            consequence: "Quell's own scheduler cannot be loaded: CPUs are granted by affinity, once a millisecond at \
                          most, and no rule is executed at a wake-up"
                .into(),
            fix: "boot a kernel from 6.12 on with CONFIG_SCHED_CLASS_EXT=y, or use `quell-lab boot`".into(),
        });
    };
    if facts.real_time_kernel && sched_ext.loaded.is_none() {
        let kernel = facts.kernel.as_ref().map(|kernel| evidence(&kernel.path, &kernel.value));
        return Some(Finding {
            concern: Concern::Unavailable,
            what: "the kernel is a real-time one (PREEMPT_RT)".into(),
            evidence: kernel.into_iter().collect(),
            consequence:
                "it does not allow BPF timers, without which Quell's own scheduler cannot be loaded: CPUs are granted by \
                          affinity, and servers (policy vas) are kept by SCHED_DEADLINE, for one thread each"
                    .into(),
            fix: "boot a kernel without PREEMPT_RT, if single CPUs are to be granted".into(),
        });
    }
    let loaded = sched_ext.loaded.as_ref().filter(|ops| !ops.starts_with("quell"))?;
    Some(Finding {
        concern: Concern::Unavailable,
        what: "another sched_ext scheduler is loaded".into(),
        evidence: vec![evidence(&sched_ext.path.join("root/ops"), loaded)],
        consequence:
            "weights, classes and CPU sets have the effect that scheduler gives them; Quell's cannot be loaded".into(),
        fix: format!("stop {loaded} (systemctl stop scx)"),
    })
}

fn cgroups(facts: &Facts) -> Option<Finding> {
    let needed = ["cpu", "cpuset"];
    let has = |name: &&str| facts.cgroup_v2.as_ref().is_some_and(|v2| v2.value.split(' ').any(|other| other == *name));
    let missing: Vec<&str> = needed.iter().filter(|name| !has(name)).copied().collect();
    if missing.is_empty() {
        return None;
    }
    let mut shown: Vec<Evidence> =
        facts.cgroup_v2.iter().map(|v2| evidence(&v2.path, format!("'{}'", v2.value))).collect();
    let v1 = |v1: &super::CgroupV1| evidence(&v1.mount, format!("cgroup v1 with {}", v1.controllers));
    shown.extend(facts.cgroup_v1.iter().map(v1));
    Some(Finding {
        concern: Concern::Shares,
        what: format!("cgroup v2 lacks the controllers {}", missing.join(" and ")),
        evidence: shown,
        consequence: "Quell sets every thread by itself: a new thread is bound some milliseconds after its creation, \
                      and cycle quotas and partitions do not work"
            .into(),
        fix: match facts.cgroup_v1.is_empty() {
            true => "mount cgroup v2 and enable the controllers (a systemd of version 244 or newer does)".into(),
            false => "boot with systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all".into(),
        },
    })
}

/// Cache ways and memory throttle. A machine without them, such as most virtual ones, is no finding.
fn resctrl(facts: &Facts) -> Option<Finding> {
    let (what, value, fix) = match &facts.resctrl {
        None if facts.has_resctrl => (
            "resctrl is not mounted",
            evidence(std::path::Path::new("/proc/filesystems"), "resctrl"),
            "mount -t resctrl resctrl /sys/fs/resctrl",
        ),
        Some(Valued { path, value: (false, false) }) => (
            "resctrl can divide neither cache nor memory bandwidth here",
            evidence(path, "no info/L3, no info/MB"),
            "none, if the processor only monitors; else see rdt= in kernel-parameters.txt",
        ),
        _ => return None,
    };
    Some(Finding {
        concern: Concern::Unavailable,
        what: what.into(),
        evidence: vec![value],
        consequence: "policies that set cache ways or the memory throttle (his, heracles, parties) use cores instead"
            .into(),
        fix: fix.into(),
    })
}

fn frequencies(facts: &Facts) -> Option<Finding> {
    let without = facts.online.difference(&facts.frequencies);
    if facts.frequencies.is_empty() || without.is_empty() {
        return None;
    }
    Some(Finding {
        concern: Concern::Unavailable,
        what: format!("the CPUs {without} have no frequency that can be limited"),
        evidence: vec![evidence(std::path::Path::new("/sys/devices/system/cpu/cpufreq"), facts.frequencies)],
        consequence: "his and heracles limit the frequency of the other CPUs alone".into(),
        fix: "make sure that the cpufreq driver covers every CPU (cpupower frequency-info)".into(),
    })
}

fn interrupts(facts: &Facts, exclusive: &CpuSet, rest: &CpuSet) -> Option<Finding> {
    let count =
        |interrupt: &Interrupt| -> u64 { exclusive.iter().filter_map(|cpu| interrupt.counts.get(cpu.index())).sum() };
    let mut here: Vec<&Interrupt> = facts.interrupts.iter().filter(|i| !i.allowed.is_disjoint(exclusive)).collect();
    if here.is_empty() {
        return None;
    }
    here.sort_by_key(|interrupt| std::cmp::Reverse(count(interrupt)));
    let total: u64 = here.iter().map(|interrupt| count(interrupt)).sum();
    let shown = here.iter().take(NAMED).map(|interrupt| {
        evidence(&interrupt.path, format!("{} ({}, {} came here)", interrupt.allowed, interrupt.name, count(interrupt)))
    });
    let busiest = here[0].number;
    Some(Finding {
        concern: Concern::Exclusive,
        what: format!("{} interrupts may go to CPUs {exclusive}", here.len()),
        evidence: shown.collect(),
        consequence: format!("each interrupts what runs there; {total} arrived there since boot"),
        fix: match rest.is_empty() {
            true => CHOOSE.into(),
            false => format!(
                "echo {rest} > /proc/irq/{busiest}/smp_affinity_list, and so on, after stopping irqbalance (or set its \
                 IRQBALANCE_BANNED_CPULIST={exclusive}); a managed interrupt refuses"
            ),
        },
    })
}

fn workqueues(facts: &Facts, on: &dyn Fn(&CpuSet) -> bool, rest: &CpuSet) -> Option<Finding> {
    let workqueues = facts.workqueues.as_ref().filter(|mask| on(&mask.value))?;
    let fix = match rest.is_empty() {
        true => CHOOSE.into(),
        false => format!("echo {} > {}", mask::text(rest), workqueues.path.display()),
    };
    Some(Finding {
        concern: Concern::Exclusive,
        what: "unbound kernel work may run there".into(),
        evidence: vec![evidence(&workqueues.path, format!("CPUs {}", workqueues.value))],
        consequence: "kernel threads (kworker/u) share the CPUs with what runs there".into(),
        fix,
    })
}

fn receive(facts: &Facts, on: &dyn Fn(&CpuSet) -> bool, rest: &CpuSet) -> Option<Finding> {
    let here: Vec<_> = facts.receive.iter().filter(|queue| on(&queue.cpus)).collect();
    let first = here.first()?;
    let mask = if rest.is_empty() { "0".into() } else { mask::text(rest) };
    Some(Finding {
        concern: Concern::Exclusive,
        what: format!("{} network queues hand packets to CPUs there (RPS)", here.len()),
        evidence: here.iter().take(NAMED).map(|queue| evidence(&queue.path, format!("CPUs {}", queue.cpus))).collect(),
        consequence: "packets of every workload are processed there, in softirqs that preempt any thread".into(),
        fix: format!("echo {mask} > {}, and so on", first.path.display()),
    })
}

fn siblings(facts: &Facts, exclusive: &CpuSet) -> Option<Finding> {
    let shared = facts.siblings.intersection(exclusive);
    if shared.is_empty() {
        return None;
    }
    Some(Finding {
        concern: Concern::Exclusive,
        what: format!("CPUs {shared} share their cores with siblings"),
        evidence: vec![Evidence {
            path: "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list".into(),
            value: shared.to_string(),
        }],
        consequence: "work on the sibling slows an exclusive CPU down".into(),
        fix: "give whole cores (all siblings), or use a policy with sibling bans".into(),
    })
}

fn idle_states(facts: &Facts, on: &dyn Fn(&CpuSet) -> bool) -> Option<Finding> {
    let deep: Vec<_> = facts.idle_states.iter().filter(|s| s.exit_latency > DEEP && on(&s.enabled_on)).collect();
    let deepest = deep.iter().max_by_key(|state| state.exit_latency)?;
    Some(Finding {
        concern: Concern::Latency,
        what: format!("{} deep sleep states (C-states) are enabled", deep.len()),
        evidence: deep
            .iter()
            .map(|s| evidence(&s.path, format!("{}: {} to wake up, on CPUs {}", s.name, s.exit_latency, s.enabled_on)))
            .collect(),
        consequence: format!("the first request after a pause waits up to {} longer", deepest.exit_latency),
        fix: format!(
            "cpupower idle-set -D {} while latency matters (costs power, and the others' turbo)",
            DEEP.0 / 1000
        ),
    })
}

fn turbo(facts: &Facts) -> Option<Finding> {
    let turbo = facts.turbo.as_ref().filter(|turbo| turbo.enabled)?;
    Some(Finding {
        concern: Concern::Latency,
        what: "turbo is on".into(),
        evidence: vec![evidence(&turbo.path, &turbo.text)],
        consequence: "a CPU's speed depends on how many others are busy: best-effort work slows latency-critical work \
                      down although it has its own CPUs, and measurements differ from run to run"
            .into(),
        fix: format!("for measurements and steady latency: echo {} > {}", turbo.off, turbo.path.display()),
    })
}

fn preemption(facts: &Facts) -> Option<Finding> {
    let mode = facts.preemption.as_ref().filter(|mode| mode.value != "full" && !facts.real_time_kernel)?;
    Some(Finding {
        concern: Concern::Latency,
        what: format!("preemption is {}", mode.value),
        evidence: vec![evidence(&mode.path, &mode.value)],
        consequence: "a fair thread that wakes up may wait for the next tick (1 to 10 ms) although it is eligible to \
                      run; real-time threads do not wait"
            .into(),
        fix: format!("echo full > {}, or use the policy guard", mode.path.display()),
    })
}

fn autogroup(facts: &Facts) -> Option<Finding> {
    let autogroup = facts.autogroup.as_ref().filter(|autogroup| autogroup.value)?;
    Some(Finding {
        concern: Concern::Shares,
        what: "autogroup is on".into(),
        evidence: vec![evidence(&autogroup.path, 1)],
        consequence: "nice values and SCHED_IDLE count only within one session: an idle-only workload in a session of \
                      its own competes on equal terms. Workloads in cgroups with the cpu controller are not affected"
            .into(),
        fix: "sysctl kernel.sched_autogroup_enabled=0".into(),
    })
}

fn rt_groups(facts: &Facts) -> Option<Finding> {
    let closed = facts.rt_groups.as_ref()?;
    let mut shown: Vec<Evidence> = closed.iter().take(NAMED).map(|budget| evidence(budget, 0)).collect();
    if closed.len() > NAMED {
        let more = closed.len() - NAMED;
        shown.push(Evidence { path: "and others".into(), value: more.to_string() });
    }
    Some(Finding {
        concern: Concern::Latency,
        what: "a cgroup without real-time budget cannot have SCHED_FIFO threads (RT group scheduling)".into(),
        evidence: shown,
        consequence: "a new cgroup has no budget; there the policy guard gives threads the highest weight and a short slice instead, \
                      which protects them less, and `quell exec --limit` refuses guard"
            .into(),
        fix: "write a budget to cpu.rt_runtime_us of the service's cgroup and of those above it, from the top down, or boot a \
               kernel without CONFIG_RT_GROUP_SCHED (with rt_group_sched=0 from 6.15 on)"
            .into(),
    })
}

fn rt_throttling(facts: &Facts) -> Option<Finding> {
    let runtime = facts.rt_runtime_us.as_ref()?;
    let period = facts.rt_period_us.unwrap_or(1_000_000).max(1);
    let shown = vec![evidence(&runtime.path, format!("{} of {period} µs", runtime.value))];
    if runtime.value < 0 || runtime.value >= period {
        return Some(Finding {
            concern: Concern::Safety,
            what: "real-time threads may occupy a CPU forever".into(),
            evidence: shown,
            consequence: "a runaway that Quell does not manage starves everything else on its CPU; what the policy \
                          guard promotes stays within its own budgets"
                .into(),
            fix: "sysctl kernel.sched_rt_runtime_us=950000".into(),
        });
    }
    Some(Finding {
        concern: Concern::Latency,
        what: "real-time threads are throttled".into(),
        evidence: shown,
        consequence: format!(
            "a CPU that real-time threads keep busy without a pause gives {:.0} ms of each {} ms to others; guard's \
             budgets keep threads below that",
            (period - runtime.value) as f64 / 1e3,
            period / 1000
        ),
        fix: "none needed: this keeps the machine reachable".into(),
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
