//! `parties`: cores and cache ways are divided; a workload that misses its latency gets one more unit of one of them,
//! every 500 ms (Chen, Delimitrou and Martínez, "PARTIES: QoS-Aware Resource Partitioning for Multiple Interactive
//! Services", ASPLOS 2019; as caladan-osdi20 §7, "Comparison with Parties", built it again: cores, CAT, a measurement
//! client outside, 500 ms).
//!
//! The rules are those of the authors' published controller (github.com/sc2682cornell/PARTIES, `manager/PARTIES.py`):
//! *slack* is (target − latency) / target. If any slack is below 0.05, the workload with the least is *upsized*; else
//! the one with the most of those above 0.2 is *downsized*. Only one unit of one resource moves at a time, and the next
//! step evaluates the effect: after an upsizing without effect the next resource is tried; a downsizing after which any
//! slack is below 0.05 is reverted, and that workload is left alone for a while.
//!
//! Left out as in caladan-osdi20 §7: frequency, disk, network and memory capacity. Best-effort workloads share what
//! latency-critical ones leave.

mod invariants;
mod shares;
#[cfg(test)]
mod tests;

use quell_model::view::at;
use quell_model::{
    CpuSet, Description, Event, Key, Knob, KnobKind, KnobSetting, Nanos, Need, NoteKind, Outcome, Part, Plan, Policy,
    Signal, Target, Uses, Verdict, View, Wake, WorkloadId,
};
use serde::{Deserialize, Serialize};

use crate::kit::once::Once;
use crate::kit::periodic::Periodic;
use crate::parameter::parameters;

use shares::{Resource, Shares};

/// Interval of its steps (caladan-osdi20 §7 and Table 1: "500 ms periods").
pub const INTERVAL: Nanos = Nanos::from_millis(500);

parameters! {
    /// The parameters of `parties`.
    pub struct PartiesConfig {
        /// How often it looks and acts (caladan-osdi20 §7: 500 ms).
        interval: Nanos = INTERVAL, in Nanos::from_millis(1)..=Nanos::from_secs(60);
        /// With less slack than this a workload is upsized (`makeDecision`: 0.05).
        upsize_below: f64 = 0.05, in 0.0..=1.0;
        /// With more slack than this a workload may be downsized (`makeDecision`: 0.2).
        downsize_above: f64 = 0.2, in 0.0..=1.0;
        /// A workload whose downsizing was taken back is left alone for this long (`REST`: 100 looks of 0.1 s).
        rest: Nanos = Nanos::from_secs(10), in Nanos::ZERO..=Nanos::from_secs(3600);
    }
    check(config) {
        let PartiesConfig { upsize_below, downsize_above, .. } = config;
        if upsize_below > downsize_above {
            return Err(format!(
                "with upsize_below = {upsize_below} above downsize_above = {downsize_above} the same workload would gain \
                 and lose: give upsize_below the smaller one"
            ));
        }
        Ok(())
    }
}

/// The last step's action; the next step evaluates its effect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Trial {
    /// The workload got a unit; this was its latency before.
    Upsized(WorkloadId, Nanos),
    /// The workload lost a unit of this.
    Downsized(WorkloadId, Resource),
}

/// A latency-critical workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Service {
    id: WorkloadId,
    /// The state of its machine: the resource that is tried next.
    next: Resource,
    /// It is not downsized before.
    rests_until: Nanos,
    /// Time of its last report that was evaluated.
    reported: Nanos,
    /// The latency of that report, and its slack; None: it has none, or cannot be judged.
    seen: Option<(Nanos, f64)>,
}

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parties {
    config: PartiesConfig,
    services: Vec<Service>,
    shares: Shares,
    trial: Option<Trial>,
    pool: CpuSet,
    /// The plan that divided everything anew last: cores first.
    #[serde(default)]
    cores_plan: Option<u64>,
    /// The plan that divided ways last; a host without CAT refuses it, and cores alone are divided from then on.
    ways_plan: Option<u64>,
    has_ways: bool,
    /// Ways to divide, and the hardware's ways of each.
    #[serde(default)]
    ways: u32,
    #[serde(default)]
    way_unit: u32,
    look: Periodic,
    said_absent: Once,
}

impl Parties {
    /// The policy.
    #[must_use]
    pub fn new(config: PartiesConfig) -> Parties {
        Parties {
            config,
            services: Vec::new(),
            shares: Shares::default(),
            trial: None,
            pool: CpuSet::EMPTY,
            cores_plan: None,
            ways_plan: None,
            has_ways: true,
            ways: 0,
            way_unit: 1,
            look: Periodic::default(),
            said_absent: Once::default(),
        }
    }

    /// Its name and its needs.
    pub const DESCRIPTION: Description = Description {
        name: "parties",
        summary: "divides cores and cache ways; a service that misses its latency gets one unit more, every 500 ms",
        source: "Chen et al., ASPLOS 2019, and its published controller; caladan-osdi20 §7",
        interval: INTERVAL,
        signals: &[Need::or(Signal::Latency, "cores and ways stay divided evenly")],
        knobs: &[Need::must(KnobKind::Cpus), Need::or(KnobKind::CacheWays, "the cache is not divided")],
        rules: &[],
        keys: &[Uses::critical(Key::Slo)],
        grants: false,
    };

    /// Divides evenly among latency-critical workloads, and best-effort ones as one more (`init`).
    fn begin(&mut self, view: &View, plan: &mut Plan) {
        self.pool = view.pool();
        self.trial = None;
        self.services.clear();
        let critical = view.owned().filter(|(_, spec)| spec.is_lc());
        self.services.extend(critical.map(|(id, _)| Service {
            id,
            next: Resource::Cores,
            rests_until: Nanos::ZERO,
            reported: Nanos::ZERO,
            seen: None,
        }));
        // The machine's ways, in units of the least number that a workload can have.
        let (ways, least) = view.controls.ways().unwrap_or_default();
        self.way_unit = least.max(1);
        self.ways = ways / self.way_unit;
        self.has_ways &= self.ways > 0;
        let has_best_effort = view.owned().any(|(_, spec)| !spec.is_lc());
        self.shares.divide(self.services.len(), has_best_effort, self.pool.len() as u32, self.ways);
        self.write(Resource::Cores, view, plan);
        self.cores_plan = Some(plan.number);
        // A part that may be refused is a plan of its own: the next one.
        self.ways_plan = None;
    }

    fn write(&mut self, resource: Resource, view: &View, plan: &mut Plan) {
        if resource == Resource::Ways {
            self.ways_plan = Some(plan.number);
        }
        for (id, spec) in view.owned() {
            let place = if spec.is_lc() { self.services.iter().position(|service| service.id == id) } else { None };
            let knob = match resource {
                Resource::Cores => {
                    let cpus = self.shares.cpus(place, &view.topology, &self.pool);
                    if cpus.is_empty() { continue } else { Knob::Cpus(view.within_or_any(id, &cpus)) }
                }
                Resource::Ways => Knob::CacheWays(spread(self.shares.ways(place, self.ways), self.way_unit)),
            };
            plan.knobs.push(KnobSetting { target: Target::Workload(id), knob });
        }
    }

    /// Takes the clients' reports in; says whether all services have a new one.
    fn read(&mut self, view: &View, plan: &mut Plan) -> bool {
        let mut all = true;
        for service in &mut self.services {
            let Some(slo) = view.workload(service.id).and_then(|spec| spec.slo) else { continue };
            let report = at(&view.workloads.latency, service.id.index());
            let Some(latency) = report.usable().filter(|_| report.at > service.reported) else {
                all = false;
                continue;
            };
            service.reported = report.at;
            let target = slo.bound.0.max(1) as f64;
            service.seen = Some((latency, (target - latency.0 as f64) / target));
        }
        if self.services.iter().all(|service| service.seen.is_none()) && !self.services.is_empty() {
            if self.said_absent.first() {
                plan.note(NoteKind::Warning, None, "no application latency with an SLO is reported: nothing is moved");
            }
            return false;
        }
        all
    }

    /// Evaluates the last step (`makeDecision`, `revert`).
    fn judge(&mut self, view: &View, plan: &mut Plan) {
        let short = self.services.iter().any(|service| service.slack() < self.config.upsize_below);
        match self.trial.take() {
            Some(Trial::Upsized(id, before)) => {
                if let Some(service) = self.services.iter_mut().find(|service| service.id == id)
                    && service.seen.is_some_and(|(latency, _)| latency >= before)
                {
                    service.next = service.next.other(self.has_ways);
                }
            }
            Some(Trial::Downsized(id, resource)) if short => {
                let Some(place) = self.services.iter().position(|service| service.id == id) else { return };
                self.shares.give(place, resource);
                self.write(resource, view, plan);
                let service = &mut self.services[place];
                service.next = service.next.other(self.has_ways);
                service.rests_until = view.now + self.config.rest;
                plan.note(NoteKind::Because, Some(id), "somebody's latency suffered: it gets its unit back");
            }
            _ => {}
        }
    }

    /// One unit of one resource moves.
    fn decide(&mut self, view: &View, plan: &mut Plan) {
        let places = 0..self.services.len();
        let slack = |&place: &usize| self.services[place].slack();
        let least = places.clone().min_by(|one, other| slack(one).total_cmp(&slack(other)));
        if let Some(place) = least.filter(|place| slack(place) < self.config.upsize_below) {
            return self.upsize(place, view, plan);
        }
        let may = |place: &usize| {
            let service = &self.services[*place];
            service.seen.is_some() && slack(place) > self.config.downsize_above && service.rests_until <= view.now
        };
        let most = places.filter(may).max_by(|one, other| slack(one).total_cmp(&slack(other)));
        if let Some(place) = most {
            self.downsize(place, view, plan);
        }
    }

    fn upsize(&mut self, place: usize, view: &View, plan: &mut Plan) {
        for _ in 0..2 {
            let Service { id, next, seen, .. } = self.services[place];
            // Of other services the one with the most slack loses, once best-effort work has nothing to lose.
            let others = (0..self.services.len()).filter(|&other| other != place);
            let richest = others
                .filter(|&other| self.shares.may_lose(other, next))
                .max_by(|&one, &other| self.services[one].slack().total_cmp(&self.services[other].slack()));
            let can = next == Resource::Cores || self.has_ways;
            if let Some(is_services) = if can { self.shares.take_for(place, next, richest) } else { None } {
                // `adjustCore`, `adjustCache`: a victim in the same state goes on to its next one.
                if let Some(victim) = richest.filter(|&victim| is_services && self.services[victim].next == next) {
                    self.services[victim].next = next.other(self.has_ways);
                }
                self.trial = seen.map(|(latency, _)| Trial::Upsized(id, latency));
                self.write(next, view, plan);
                return plan.note(NoteKind::Because, Some(id), next.upsized());
            }
            self.services[place].next = next.other(self.has_ways);
        }
    }

    fn downsize(&mut self, place: usize, view: &View, plan: &mut Plan) {
        if !self.shares.has_best_effort() {
            return;
        }
        for _ in 0..2 {
            let Service { id, next, .. } = self.services[place];
            if (next == Resource::Cores || self.has_ways) && self.shares.release(place, next) {
                self.trial = Some(Trial::Downsized(id, next));
                self.write(next, view, plan);
                return plan.note(NoteKind::Because, Some(id), next.downsized());
            }
            self.services[place].next = next.other(self.has_ways);
        }
    }

    /// A host without CAT refuses ways. Where cores could not be divided, that is tried again in the next step.
    fn handle(&mut self, events: &[Event]) {
        for event in events {
            let Event::Outcome(Outcome { plan, part: Part::Knobs, verdict: Verdict::Refused(_) }) = event else {
                continue;
            };
            if Some(*plan) == self.cores_plan {
                self.pool = CpuSet::EMPTY;
            }
            if Some(*plan) == self.ways_plan {
                self.has_ways = false;
                self.trial = None;
                self.services.iter_mut().for_each(|service| service.next = Resource::Cores);
            }
        }
    }
}

/// A mask in which each bit stands for several.
fn spread(mask: u32, unit: u32) -> u32 {
    if unit == 1 {
        return mask;
    }
    let bits = (0..32 / unit).filter(|bit| mask >> bit & 1 == 1);
    bits.fold(0, |all, bit| all | (u32::MAX >> (32 - unit)) << (bit * unit))
}

impl Service {
    /// The part of its target that is left. One of which nothing is known neither gives nor takes.
    fn slack(&self) -> f64 {
        self.seen.map_or(UNKNOWN, |(_, slack)| slack)
    }
}

/// Between "too little" and "plenty".
const UNKNOWN: f64 = 0.1;

impl Policy for Parties {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        let comes_or_goes = |event: &Event| matches!(event, Event::Attached(_) | Event::Detached(_));
        if events.iter().any(comes_or_goes) || view.pool() != self.pool {
            self.begin(view, plan);
            self.look.put_off(view.now + self.config.interval);
            return self.look.wake();
        }
        self.handle(events);
        if self.look.is_due(view.now, self.config.interval) {
            if self.has_ways && self.ways_plan.is_none() {
                self.write(Resource::Ways, view, plan);
            } else if self.read(view, plan) {
                self.judge(view, plan);
                if plan.knobs.is_empty() {
                    self.decide(view, plan);
                }
            }
        }
        self.look.wake()
    }
}
