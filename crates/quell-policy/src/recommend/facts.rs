//! What is known of a machine and of a workload.

use std::collections::BTreeMap;

use quell_model::{Capabilities, Class, CpuCount, Description, KnobKind, Nanos, Signal, Support};
use serde::Serialize;

use crate::AnyPolicy;

/// May Quell's own scheduler (sched_ext) be recommended?
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnScheduler {
    /// The kernel takes it.
    Usable,
    /// It cannot or must not be loaded: why.
    No(String),
}

/// What is known of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineFacts {
    /// CPUs that are online.
    pub cpus: u32,
    /// May Quell's own scheduler be recommended?
    pub own_scheduler: OwnScheduler,
    /// Policies that cannot work here, each with the first necessity that is missing.
    pub cannot: BTreeMap<&'static str, String>,
    /// Does it count what workloads do to caches and memory?
    pub counters: bool,
    /// Has it cache ways or a memory throttle to set (resctrl)?
    pub resctrl: bool,
}

impl MachineFacts {
    /// The facts of a machine with these capabilities, which may depend on the policy (whose scheduler it would run under).
    #[must_use]
    pub fn new(cpus: u32, own_scheduler: OwnScheduler, of: impl Fn(&Description) -> Capabilities) -> MachineFacts {
        let missing = |policy: &Description| of(policy).fidelity(policy).missing.into_iter().next();
        let cannot = AnyPolicy::ALL.iter().filter_map(|policy| Some((policy.name, missing(policy)?))).collect();
        let has = of(&crate::his::His::DESCRIPTION);
        let measures = |signal| has.signals.get(&signal).is_some_and(|support| !matches!(support, Support::No { .. }));
        let sets = |knob| has.knobs.get(&knob).is_some_and(|support| !matches!(support, Support::No { .. }));
        MachineFacts {
            cpus,
            own_scheduler,
            cannot,
            counters: measures(Signal::LlcHitRatio) || measures(Signal::WorkloadBandwidth),
            resctrl: sets(KnobKind::CacheWays) || sets(KnobKind::Throttle),
        }
    }
}

/// What a workload and its neighbours compete for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contended {
    /// CPU time.
    Cpu,
    /// The last-level cache.
    Cache,
    /// Memory bandwidth.
    Bandwidth,
}

impl Contended {
    /// In a sentence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Contended::Cpu => "CPU time",
            Contended::Cache => "the last-level cache",
            Contended::Bandwidth => "memory bandwidth",
        }
    }
}

/// What is known of a workload. None: not known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadFacts {
    /// What a command line calls it, such as a unit.
    pub target: String,
    /// Its entry of `match` in a configuration, such as `{ unit = "nginx.service" }`.
    pub selector: String,
    /// Latency-critical or best-effort.
    pub class: Class,
    /// CPUs that it asks for: its request, or its demand.
    pub cpus: Option<CpuCount>,
    /// Is it disturbed by others at all?
    pub disturbed: Option<bool>,
    /// The longest time that one of its threads ran without a pause.
    pub longest_run: Option<Nanos>,
    /// Does its load move by more than a CPU within milliseconds?
    pub moves: Option<bool>,
    /// Is its demand known, as tasks or as a rate of requests?
    pub demand_known: Option<bool>,
    /// What it competes for.
    pub contended: Option<Contended>,
    /// May the batch work beside it just get less?
    pub batch_may_get_less: Option<bool>,
}

impl WorkloadFacts {
    /// A workload of which nothing is known.
    #[must_use]
    pub fn unknown(target: impl Into<String>, selector: impl Into<String>, class: Class) -> WorkloadFacts {
        WorkloadFacts {
            target: target.into(),
            selector: selector.into(),
            class,
            cpus: None,
            disturbed: None,
            longest_run: None,
            moves: None,
            demand_known: None,
            contended: None,
            batch_may_get_less: None,
        }
    }

    /// Whole CPUs that hold what it asks for; at least one.
    #[must_use]
    pub fn whole_cpus(&self) -> u32 {
        self.cpus.map_or(1, |cpus| cpus.ceil().max(1))
    }
}
