//! What the simulated host can measure, set and do.

use quell_model::{Capabilities, KnobKind, RuleKind, Signal, Support, TargetKind};

use super::Lending;
use super::gauges::is_counted;
use crate::contention::MeasuredOfMemory;

/// What the simulated host has. It says so without a machine, so that a scenario can be checked before it runs.
#[must_use]
pub fn capabilities(lending: Lending, of_memory: MeasuredOfMemory) -> Capabilities {
    let mut has = Capabilities { host: "sim".into(), ..Capabilities::default() };
    let no_contention = || Support::No {
        why: "no workload of this scenario has a profile, or contention is off".into(),
        mend: "give workloads profiles: the simulator models caches and memory then".into(),
    };
    let no_counters = || Support::No {
        why: "this scenario's machine has no counters".into(),
        mend: "choose other `contention.counters`".into(),
    };
    for &signal in Signal::ALL {
        let is_counted = is_counted(signal);
        let support = match (signal, of_memory) {
            (_, MeasuredOfMemory::Nothing) if is_counted || signal == Signal::MemorySlowdown => no_contention(),
            (_, MeasuredOfMemory::Slowdown) if is_counted => no_counters(),
            (Signal::UnreadDelay, _) => Support::No {
                why: "the simulator has no sockets".into(),
                mend: "none: the queueing delay has all that waits".into(),
            },
            _ => Support::Yes,
        };
        has.signals.insert(signal, support);
    }
    for &knob in KnobKind::ALL {
        let support = match knob {
            KnobKind::CacheWays if of_memory == MeasuredOfMemory::Nothing => no_contention(),
            _ => Support::Yes,
        };
        has.knobs.insert(knob, support);
    }
    for knob in [KnobKind::Weight, KnobKind::IdleOnly] {
        let why = "a simulated thread has a class and no weight of its own".into();
        has.limit_on(knob, TargetKind::Thread, Support::No { why, mend: "set it on the workload".into() });
    }
    let no_grants =
        || Support::No { why: "the kernel's own scheduler runs".into(), mend: "run a policy that grants CPUs".into() };
    for rule in [RuleKind::Guaranteed, RuleKind::Burst, RuleKind::Limit, RuleKind::Rank, RuleKind::SiblingBan] {
        has.rules.insert(rule, if lending == Lending::Scheduler { Support::Yes } else { no_grants() });
    }
    has.grants = match lending {
        Lending::Scheduler => Support::Yes,
        Lending::Affinity => Support::Partly(
            "by affinity, once a millisecond at most: best-effort threads keep to the CPUs that they hold, or to one where \
             they hold none"
                .into(),
        ),
        Lending::Nothing => no_grants(),
    };
    has.rules.insert(RuleKind::Server, Support::Yes);
    has
}
