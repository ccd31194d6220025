//! `sdc-local`: the local scheduler of Software-Defined Compute (snu2020 §5.4.2, Algorithm 5.2). Services have dedicated
//! cores, memory-intensive work runs on few of the others, so that it waits for memory by turns and not all at once.
//!
//! ```text
//! /* Local scheduler is invoked every 15 seconds */
//! mem, nmem, ls = classify_vcpus(collect_metrics())             classify
//! dedicated_cores = get_dedicated_cores(len(ls)); mem_cores = get_mem_cores()   place::Division
//! while unscheduled: dst = get_min_vcpu_core(dedicated_cores, mem_cores or other_cores); schedule(src, dst)   place
//! ```
//!
//! A unit is a requested CPU of a workload (a VM's vCPU); one without a request has a unit a thread. What the text leaves
//! open is ours, a parameter each where a number is: the intensity that divides the classes, counted over the CPU time that a
//! unit had, so that squeezing it does not change its class; a memory-intensive unit keeps its class until it is below
//! half of that; half as many cores as there are such units are rounded up; two units of one service share a core of two
//! hyperthreads; where dedicated cores run out, services share those among themselves, and some are kept for the others.

mod classify;
mod invariants;
mod place;

use quell_model::{
    BytesPerSecond, CpuSet, Description, Event, Key, Knob, KnobKind, KnobSetting, Nanos, Need, NoteKind, Plan, Policy,
    Signal, Target, Uses, View, Wake, WorkloadId,
};
use serde::{Deserialize, Serialize};

use crate::kit::once::Once;
use crate::kit::periodic::Periodic;
use crate::kit::wanted::Wanted;
use crate::parameter::{choices, parameters};
use classify::{Classes, Kind};
use place::{Buffers, Division, Unit};

/// §5.4.2: "Every 15 seconds, the local scheduling procedure is triggered".
const INTERVAL: Nanos = Nanos::from_secs(15);

/// What is bound to a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pins {
    /// A workload to the cores of all its units together; the kernel balances among them.
    #[default]
    Workloads,
    /// Each thread to the core of its unit: for workloads whose threads are vCPUs, as in the paper.
    Threads,
}

choices! {
    Pins {
        Pins::Workloads = "workloads",
        Pins::Threads = "threads",
    }
}

parameters! {
    /// The parameters of `sdc-local`.
    pub struct SdcLocalConfig {
        /// How often workloads are placed (§5.4.2: 15 s).
        interval: Nanos = INTERVAL, in Nanos::from_millis(100)..=Nanos::from_secs(3600);
        /// Memory-buffer-full events a second of CPU time from which on a unit is memory-intensive (ours: alone on
        /// the paper's machine the library's memory-intensive programs have 18,000 to 890,000, others below 400).
        intensive: f64 = 1e4, in 1.0..=1e12;
        /// The same by memory bandwidth a CPU, where those events are not counted (ours).
        intensive_bandwidth: BytesPerSecond = BytesPerSecond(1e9), in BytesPerSecond(1e6)..=BytesPerSecond(1e13);
        /// Cores that services leave to the others where there are any (ours).
        kept: u32 = 1, in 0..=1023, unit "cores";
        /// What is bound to a core: workloads, or each thread.
        pins: Pins = Pins::Workloads;
    }
    check(config) { Ok(()) }
}

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SdcLocal {
    config: SdcLocalConfig,
    look: Periodic,
    classes: Classes,
    /// The units of the last look with their cores.
    units: Vec<Unit>,
    /// The pool that they were placed on.
    pool: CpuSet,
    knobs: Wanted,
    said_blind: Once,
    said_short: Once,
    #[serde(skip)]
    next: Vec<Unit>,
    #[serde(skip)]
    cores: Vec<CpuSet>,
    #[serde(skip)]
    buffers: Buffers,
}

impl SdcLocal {
    /// The policy.
    #[must_use]
    pub fn new(config: SdcLocalConfig) -> SdcLocal {
        SdcLocal {
            config,
            look: Periodic::default(),
            classes: Classes::default(),
            units: Vec::new(),
            pool: CpuSet::EMPTY,
            knobs: Wanted::default(),
            said_blind: Once::default(),
            said_short: Once::default(),
            next: Vec::new(),
            cores: Vec::new(),
            buffers: Buffers::default(),
        }
    }

    /// Its name and its needs.
    pub const DESCRIPTION: Description = Description {
        name: "sdc-local",
        summary: "services get cores of their own, memory-intensive work runs on half as many cores as it has CPUs",
        source: "SDC: dissertation, Seoul National University 2020, chapter 5 (Algorithm 5.2)",
        interval: INTERVAL,
        signals: &[
            Need::or(Signal::BufferFullRate, "memory-intensive work is recognised by its memory bandwidth"),
            Need::or(Signal::WorkloadBandwidth, "no work is found memory-intensive where full buffers are not counted"),
            Need::or(Signal::RunTime, "intensity counts by units, not by the CPU time that they had"),
            Need::or(Signal::ThreadCount, "a workload without a request is one unit, whatever its threads"),
            Need::or(Signal::Threads, "threads are not bound one by one"),
            Need::or(Signal::SoftInterrupts, "a scheduler of the cluster predicts no latencies from this host"),
        ],
        knobs: &[Need::must(KnobKind::Cpus)],
        rules: &[],
        keys: &[Uses::all(Key::Cpus)],
        grants: false,
    };

    fn place(&mut self, view: &View, is_new: bool, plan: &mut Plan) {
        let pool = view.pool();
        self.cores.clear();
        self.cores.extend(view.topology.cores().iter().map(|core| core.intersection(&pool)));
        self.cores.retain(|core| !core.is_empty());
        self.classes.look(view, &self.config);
        place::units(&mut self.next, view, &self.classes, self.config.pins);
        if self.cores.is_empty() || self.next.is_empty() {
            return;
        }
        let threads = self.cores.iter().map(CpuSet::len).max().unwrap_or(1);
        let division = Division::of(&self.next, self.cores.len(), threads, self.config.kept as usize);
        place::assign(&mut self.next, &division, &self.units, &mut self.buffers);
        self.say(view, &division, plan);
        let is_same = self.pool == pool
            && self.next.len() == self.units.len()
            && self.next.iter().zip(&self.units).all(|(next, unit)| next.is_placed_as(unit));
        std::mem::swap(&mut self.units, &mut self.next);
        // "If the destination core is previously allocated to the vCPU, the function does not do anything" (§5.4.2).
        if is_same && !is_new && !self.knobs.is_due(view.now) {
            return;
        }
        self.pool = pool;
        let wanted = match self.config.pins {
            Pins::Workloads => bound_workloads(view, &self.units, &self.cores),
            Pins::Threads => bound_threads(view, &self.units, &self.cores),
        };
        self.knobs.want(wanted, plan);
    }

    fn say(&mut self, view: &View, division: &Division, plan: &mut Plan) {
        if self.classes.is_blind {
            if self.said_blind.first() {
                let text = "neither full memory buffers nor bandwidth are counted: only services are kept apart";
                plan.note(NoteKind::Warning, None, text);
            }
        } else {
            self.said_blind.forget();
        }
        if division.short == 0 {
            self.said_short.forget();
        } else if self.said_short.first() {
            let asked = division.dedicated + division.short;
            let text = format!(
                "services ask for {asked} cores of their own and {} are there beside {} for the others: they share those \
                 among themselves; lower a request or let one go elsewhere",
                division.dedicated,
                division.shared()
            );
            plan.note(NoteKind::Refused, None, text);
        }
        for (id, _) in view.owned() {
            let kind = |of: &[Unit]| of.iter().find(|unit| unit.workload == id).map(|unit| unit.kind);
            let (now, before) = (kind(&self.next), kind(&self.units));
            if now == before {
                continue;
            }
            let (times, cores) = (self.classes.intensity(id), division.memory);
            let text = match now {
                Some(Kind::Memory) => {
                    format!("memory-intensive, {times:.1} times the threshold: on {cores} cores with its like")
                }
                Some(Kind::Other) if before.is_some() => {
                    format!("no longer memory-intensive, {times:.2} times the threshold: on the other cores")
                }
                _ => continue,
            };
            plan.note(NoteKind::Because, Some(id), text);
        }
    }
}

/// Each workload on the cores of its units.
fn bound_workloads(view: &View, units: &[Unit], cores: &[CpuSet]) -> Vec<KnobSetting> {
    let of = |id: WorkloadId| {
        let own = units.iter().filter(|unit| unit.workload == id);
        own.fold(CpuSet::EMPTY, |sum, unit| sum.union(&cores[unit.core]))
    };
    let bound = view.owned().map(|(id, _)| (id, of(id))).filter(|(_, cpus)| !cpus.is_empty());
    let within = bound.map(|(id, cpus)| (id, view.within_or_any(id, &cpus)));
    within.map(|(id, cpus)| KnobSetting { target: Target::Workload(id), knob: Knob::Cpus(cpus) }).collect()
}

/// Each thread on the core of its unit.
fn bound_threads(view: &View, units: &[Unit], cores: &[CpuSet]) -> Vec<KnobSetting> {
    let threads =
        units.iter().filter_map(|unit| Some((unit.thread?, view.within_or_any(unit.workload, &cores[unit.core]))));
    threads.map(|(thread, cpus)| KnobSetting { target: Target::Thread(thread), knob: Knob::Cpus(cpus) }).collect()
}

impl Policy for SdcLocal {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        let mut is_new = false;
        for event in events {
            self.knobs.handle(view.now, event, plan);
            if let Event::Detached(id) = event {
                self.classes.forget(*id);
            }
            is_new |= matches!(
                event,
                Event::Attached(_) | Event::Detached(_) | Event::Offline(_) | Event::Online(_) | Event::Allowed(_)
            );
        }
        if self.look.is_due(view.now, self.config.interval) || is_new || self.knobs.is_due(view.now) {
            self.place(view, is_new, plan);
            // Between steps there is nothing in them: a policy that is restored is as this one.
            self.next.clear();
            self.cores.clear();
            self.buffers.clear();
        }
        self.look.wake().sooner(self.knobs.wake())
    }
}

#[cfg(test)]
mod tests;
