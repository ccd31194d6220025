//! rKube: a CPU reservation that is honoured (rkube-socc21 §4–5).
//!
//! A *strict* workload gets whole CPUs: "they will be added to cpuset.cpus of the target and will be removed from
//! cpuset.cpus of all others" (§5.2). *Standard* workloads share the rest by weight. A system reserve is kept for
//! system services, "to prevent them from being starved and becoming bottlenecks" (§5.2). Everything is decided anew
//! "on all pod life cycle events" (§5.2), here: whenever a workload or a CPU comes or goes.
//!
//! Beyond the paper, which "does not support fractional CPU shares": of a fractional strict request the whole part is
//! exclusive and the rest is a weight in the shared pool. A placement stays as long as possible.

mod choose;
mod invariants;
mod place;

use quell_model::{
    CpuCount, CpuSet, Description, Event, Key, Knob, KnobKind, KnobSetting, Nanos, Need, NoteKind, Plan, Policy,
    Target, Uses, View, Wake, Workload,
};
use serde::{Deserialize, Serialize};

use crate::kit::wanted::Wanted;
use crate::parameter::parameters;

pub use choose::choose;
pub use place::{Overcommitment, Placement, place};

parameters! {
    /// The parameters of `rkube`.
    pub struct RkubeConfig {
        /// CPUs kept for system services, where no workload runs (the paper's kube-reserved and system-reserved; it
        /// reserves 2 CPUs a host, §3.1.1).
        system_reserve: u32 = 0, in 0..=1023, unit "CPUs";
        /// Also move the unmanaged rest of the machine away from reserved CPUs, by cgroup partitions.
        partition: bool = false;
    }
    check(config) { Ok(()) }
}

/// rKube.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rkube {
    config: RkubeConfig,
    /// Exclusive CPUs, by workload; kept from decision to decision.
    placement: Placement,
    knobs: Wanted,
    decided_for: Option<CpuSet>,
}

impl Rkube {
    /// The policy.
    #[must_use]
    pub fn new(config: RkubeConfig) -> Rkube {
        Rkube { config, placement: Placement::default(), knobs: Wanted::default(), decided_for: None }
    }

    /// Its name and its needs.
    pub const DESCRIPTION: Description = Description {
        name: "rkube",
        summary: "strict reservations get whole CPUs of their own; the rest is shared by weight",
        source: "rkube-socc21 §4–5",
        interval: Nanos::ZERO,
        signals: &[],
        knobs: &[
            Need::must(KnobKind::Cpus),
            Need::or(KnobKind::Weight, "standard workloads share without regard to their requests"),
            Need::or(KnobKind::Partition, "unmanaged work may still run on reserved CPUs"),
        ],
        rules: &[],
        keys: &[Uses::all(Key::Cpus), Uses::all(Key::Reservation)],
        grants: false,
    };

    /// The CPUs that each strict workload has for itself.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    fn decide(&mut self, view: &View, plan: &mut Plan) {
        let pool = view.pool();
        let refused = place(&mut self.placement, view, self.config.system_reserve as usize);
        for (id, numbers) in &refused {
            plan.note(NoteKind::Refused, Some(*id), numbers.to_string());
        }
        let mut wanted = Vec::with_capacity(3 * view.workloads.spec.len());
        for (id, workload) in view.owned() {
            let exclusive = self.placement.exclusive(id);
            let (cpus, by_weight) = self.share(workload, exclusive);
            let allowed = view.within(id, &cpus);
            if allowed.is_empty() && !cpus.is_empty() {
                let text = format!(
                    "of the CPUs that it shares ({cpus}) its cgroups allow it none: its CPU set stays as it is; widen AllowedCPUs= \
                     of its unit or slice"
                );
                plan.note(NoteKind::Refused, Some(id), text);
                continue;
            }
            let cpus = allowed;
            if cpus.is_empty() {
                let text = "no CPU is left for it beside strict reservations; its CPU set stays as it is, on CPUs that \
                            others reserved: lower a strict request";
                plan.note(NoteKind::Refused, Some(id), text);
                continue;
            }
            let partition = self.config.partition && cpus == exclusive;
            let others = if partition { "" } else { ", but unmanaged work may run there" };
            if !exclusive.is_empty() && workload.cpus.fraction() > CpuCount::ZERO {
                let text = format!(
                    "{} of its {} CPUs are its own ({exclusive}){others}; the rest is a weight in the shared pool",
                    exclusive.len(),
                    workload.cpus
                );
                plan.note(NoteKind::Because, Some(id), text);
            } else if !exclusive.is_empty() {
                plan.note(NoteKind::Because, Some(id), format!("CPUs {exclusive} are its own{others}"));
            }
            let target = Target::Workload(id);
            let mut want = |knob| wanted.push(KnobSetting { target, knob });
            want(Knob::Cpus(cpus));
            want(Knob::Weight(weight(by_weight)));
            // A set that never was a partition needs no removal.
            if partition || self.knobs.settled(target, KnobKind::Partition).is_some() {
                want(Knob::Partition(partition));
            }
        }
        self.knobs.want(wanted, plan);
        self.decided_for = Some(pool);
    }

    /// The CPUs of a workload that has these for itself, and the number of CPUs for its weight among those that share.
    fn share(&self, spec: &Workload, exclusive: CpuSet) -> (CpuSet, CpuCount) {
        let shared = self.placement.shared();
        if exclusive.is_empty() {
            (shared, spec.cpus)
        } else if spec.cpus.fraction() > CpuCount::ZERO {
            (exclusive.union(&shared), spec.cpus.fraction())
        } else {
            (exclusive, spec.cpus)
        }
    }
}

/// A share in the shared pool: 1 CPU is weight 100, the default of cgroup v2; no request is the lowest weight.
/// (The paper's `cpu.shares` of 1024 a CPU, §4.1 Table 2, in the unit of `cpu.weight`.)
fn weight(cpus: CpuCount) -> u32 {
    (cpus.0 / 10).clamp(1, 10_000)
}

impl Policy for Rkube {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        events.iter().for_each(|event| self.knobs.handle(view.now, event, plan));
        let comes_or_goes = |event: &Event| {
            matches!(
                event,
                Event::Attached(_) | Event::Detached(_) | Event::Offline(_) | Event::Online(_) | Event::Allowed(_)
            )
        };
        let changed = events.iter().any(comes_or_goes) || self.decided_for != Some(view.pool());
        if changed || self.knobs.is_due(view.now) {
            self.decide(view, plan);
        }
        plan.leaves = Some(self.placement.shared());
        self.knobs.wake()
    }
}

#[cfg(test)]
mod tests;
