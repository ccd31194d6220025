//! What is known of a machine and of a workload.

use std::collections::BTreeMap;

use quell_model::{Capabilities, Class, CpuCount, Description, KnobKind, Nanos, Signal, Support};
use serde::Serialize;

use crate::AnyPolicy;
use crate::guard::GuardConfig;

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
    /// Does Quell manage nothing beside the workload? Whole CPUs are kept from what it manages.
    pub alone: bool,
    /// Has the process that asks the rights to find out what works here? Without, nothing is said to be missing for want of them.
    pub has_rights: bool,
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
            alone: false,
            has_rights: true,
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
    /// Words of a command line that mean it, as a shell takes them: a unit, processes.
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
    /// How long `guard` would let it run: its parameter.
    pub run_budget: Nanos,
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
            run_budget: GuardConfig::default().run_budget,
            moves: None,
            demand_known: None,
            contended: None,
            batch_may_get_less: None,
        }
    }

    /// Is it a unit of systemd?
    #[must_use]
    pub fn is_unit(&self) -> bool {
        let name = self.target.trim_matches('\'');
        let is_one =
            [".service", ".scope", ".slice"].iter().any(|suffix| name.len() > suffix.len() && name.ends_with(suffix));
        is_one && !name.contains(['/', ':', ' '])
    }

    /// Whole CPUs that hold what it asks for; at least one.
    #[must_use]
    pub fn whole_cpus(&self) -> u32 {
        self.cpus.map_or(1, |cpus| cpus.ceil().max(1))
    }
}
