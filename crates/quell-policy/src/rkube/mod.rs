//! rKube: a CPU reservation that is honoured (rkube-socc21 §4–5).
//!
//! A *strict* workload gets whole CPUs: "they will be added to cpuset.cpus of the target and will be removed from
//! cpuset.cpus of all others" (§5.2). *Standard* workloads share the rest by weight. A system reserve is kept for
//! system services, "to prevent them from being starved and becoming bottlenecks" (§5.2). Everything is decided anew
//! "on all pod life cycle events" (§5.2), here: whenever a workload or a CPU comes or goes.
//!
//! Beyond the paper, which "does not support fractional CPU shares": of a fractional strict request the whole part is
//! exclusive and the rest is a weight in the shared pool. What is placed stays where it is as long as it can.

mod choose;
mod place;

use quell_model::{
    CpuCount, CpuSet, Description, Event, Heeds, Key, Knob, KnobKind, KnobSetting, Nanos, Need, NoteKind, Part, Plan,
    Policy, Target, Verdict, View, Wake, Workload, WorkloadId,
};
use serde::{Deserialize, Serialize};

use crate::parameter::parameters;

pub use choose::choose;
pub use place::{Overcommitment, Placement, place};

/// After a refused plan the policy tries again after this time, then after twice as long, and so on up to a minute.
const FIRST_RETRY: Nanos = Nanos::from_secs(1);
const LAST_RETRY: Nanos = Nanos::from_secs(60);

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

/// What one workload's knobs were last set to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Setting {
    workload: WorkloadId,
    cpus: CpuSet,
    weight: u32,
    partition: bool,
}

/// rKube.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rkube {
    config: RkubeConfig,
    /// Exclusive CPUs, by workload; kept from decision to decision.
    placement: Placement,
    /// What the host has.
    settled: Vec<Setting>,
    /// What the plan that is under way sets, and its number.
    under_way: Option<(u64, Vec<Setting>)>,
    retry: Nanos,
    retry_at: Option<Nanos>,
    decided_for: Option<CpuSet>,
}

impl Rkube {
    /// The policy.
    #[must_use]
    pub fn new(config: RkubeConfig) -> Rkube {
        Rkube {
            config,
            placement: Placement::default(),
            settled: Vec::new(),
            under_way: None,
            retry: FIRST_RETRY,
            retry_at: None,
            decided_for: None,
        }
    }

    /// What it is and needs.
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
        keys: &[Heeds::all(Key::Cpus), Heeds::all(Key::Reservation)],
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
        let mut wanted = Vec::with_capacity(view.workloads.spec.len());
        for (id, workload) in view.owned() {
            let exclusive = self.placement.exclusive(id);
            let setting = self.setting(id, workload, exclusive);
            if setting.cpus.is_empty() {
                let text = "no CPU is left for it beside strict reservations; its CPU set stays as it is, on CPUs that \
                            others reserved: lower a strict request";
                plan.note(NoteKind::Refused, Some(id), text);
                continue;
            }
            let others = if setting.partition { "" } else { ", but unmanaged work may run there" };
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
            wanted.push(setting);
        }
        let before = |id: WorkloadId| self.settled.iter().find(|setting| setting.workload == id);
        for setting in &wanted {
            let target = Target::Workload(setting.workload);
            let mut set = |knob| plan.knobs.push(KnobSetting { target, knob });
            let old = before(setting.workload);
            if old.is_none_or(|old| old.cpus != setting.cpus) {
                set(Knob::Cpus(setting.cpus));
            }
            if old.is_none_or(|old| old.weight != setting.weight) {
                set(Knob::Weight(setting.weight));
            }
            if old.map_or(setting.partition, |old| old.partition != setting.partition) {
                set(Knob::Partition(setting.partition));
            }
        }
        if plan.knobs.is_empty() {
            self.settled = wanted;
        } else {
            self.under_way = Some((plan.number, wanted));
        }
        self.decided_for = Some(pool);
    }

    fn setting(&self, workload: WorkloadId, spec: &Workload, exclusive: CpuSet) -> Setting {
        let shared = self.placement.shared();
        let (cpus, by_weight) = if exclusive.is_empty() {
            (shared, spec.cpus)
        } else if spec.cpus.fraction() > CpuCount::ZERO {
            (exclusive.union(&shared), spec.cpus.fraction())
        } else {
            (exclusive, spec.cpus)
        };
        let partition = self.config.partition && cpus == exclusive;
        Setting { workload, cpus, weight: weight(by_weight), partition }
    }

    fn hear(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> bool {
        let mut changed = false;
        for event in events {
            match event {
                Event::Attached(_) | Event::Offline(_) | Event::Online(_) => changed = true,
                Event::Detached(id) => {
                    self.settled.retain(|setting| setting.workload != *id);
                    changed = true;
                }
                Event::Outcome(outcome) if outcome.part == Part::Knobs => {
                    let Some((_, wanted)) = self.under_way.take_if(|(number, _)| *number == outcome.plan) else {
                        continue;
                    };
                    match &outcome.verdict {
                        Verdict::Applied(_) | Verdict::Pending(_) => {
                            self.settled = wanted;
                            self.retry = FIRST_RETRY;
                            self.retry_at = None;
                        }
                        Verdict::Refused(why) => {
                            self.retry_at = Some(view.now + self.retry);
                            let text = format!("the host refused: {why}; trying again in {}", self.retry);
                            plan.note(NoteKind::Warning, None, text);
                            self.retry = (self.retry + self.retry).min(LAST_RETRY);
                        }
                        // A target is gone, and with it the plan: what it meant for the others is still to be done.
                        Verdict::Vanished => self.retry_at = Some(view.now + FIRST_RETRY),
                    }
                }
                _ => {}
            }
        }
        changed
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
        let changed = self.hear(view, events, plan) || self.decided_for != Some(view.pool());
        let retry = self.retry_at.is_some_and(|at| at <= view.now);
        if changed || retry {
            self.retry_at = None;
            self.decide(view, plan);
        }
        plan.leaves = Some(self.placement.shared());
        self.retry_at.map_or(Wake::OnEvent, Wake::At)
    }
}

#[cfg(test)]
mod tests;
