//! The API's data, kept up to date on its own thread from the loop's snapshots and decisions.

use std::collections::{BTreeMap, HashSet};
use std::sync::mpsc::Receiver;

use quell_model::signal::Subject;
use quell_model::view::at;
use quell_model::{CpuSet, HostDomain, Knob, Nanos, Policy, Sample, Signal, ThreadState, View, WorkloadId};
use quell_policy::AnyPolicy;
use quell_scrape::Reading;
use quell_thread::clock;

use super::control::Caller;
use super::latency::{Inbox, Rejected};
use super::pods::ShownPods;
use super::standing::{configured, standing};
use crate::attribution::Shown;
use crate::explain::{Explanations, per_time};
use crate::watch::{Glance, Roster, Standing, Watched};
use crate::wire::{self, Measured, Measurements};

/// Rates are taken over at least this long.
const RATE_OVER: Nanos = Nanos::from_millis(900);
/// Demotions within this time are frequent.
const MINUTE: Nanos = Nanos::from_secs(60);
/// Decisions in the status.
const DECISIONS: usize = 24;

/// Data that stays the same as long as the agent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// `run`, `dry-run` or `shadow`.
    pub mode: String,
    /// The name of the host.
    pub host: String,
    /// Limits of the policies here and their reasons, one line each.
    pub limits: Vec<String>,
    /// Why Quell's scheduler is off, if a policy asks for it.
    pub degraded: Option<String>,
    /// Data that changes seldom.
    pub news: News,
    /// What the agent still does before it works as configured.
    pub starting: Option<Starting>,
}

/// Data about the agent that changes seldom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Keys of workloads without effect, and a refused configuration; one line each.
    pub warnings: Vec<String>,
    /// What needs no action, one line each.
    pub notices: Vec<String>,
    /// Cgroups without a place in the scheduler's table.
    pub unplaced_cgroups: u64,
    /// It is switched off.
    pub off: Option<wire::Off>,
    /// A configuration was refused when it was to be read again.
    pub not_reloaded: Option<wire::NotReloaded>,
    /// The machine cannot be read.
    pub stale: Option<wire::Stale>,
}

/// What an agent does before it works as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starting {
    /// The stage, for people.
    pub what: String,
    /// When it began.
    pub since: Nanos,
}

impl Starting {
    /// One line for people.
    #[must_use]
    pub fn line(&self, now: Nanos) -> String {
        format!("{}, {} s so far", self.what, now.since(self.since).0 / 1_000_000_000)
    }
}

/// The API's data.
pub struct State {
    about: About,
    watched: Watched,
    explanations: Explanations,
    rates: BTreeMap<WorkloadId, Rate>,
    recording: Option<Box<dyn Fn() -> wire::Recording + Send>>,
    latencies: Inbox,
    news: Option<Receiver<News>>,
    caller: Option<Caller>,
    leases: u64,
    waited: Shown,
    pods: ShownPods,
}

/// The readings that a workload's rates are taken from.
#[derive(Clone, Debug, Default)]
struct Rate {
    name: String,
    run_time: Since,
    run_delay: Since,
}

#[derive(Clone, Copy, Debug, Default)]
struct Since {
    from: Sample<Nanos>,
    rate: Option<(f64, Nanos)>,
}

impl Since {
    fn read(&mut self, now: Sample<Nanos>) {
        if self.from.usable().is_none() || now.value < self.from.value {
            *self = Since { from: now, rate: None };
        } else if now.at >= self.from.at + RATE_OVER {
            self.rate = per_time(&self.from, &now).map(|rate| (rate, now.at - self.from.at));
            self.from = now;
        }
    }

    fn measured(&self, now: Nanos) -> Option<wire::Measured> {
        let (rate, window) = self.rate?;
        let sample = Sample { value: rate, at: self.from.at, window, quality: self.from.quality };
        Measured::of(&sample, now)
    }
}

impl State {
    pub(super) fn new(about: About, watched: Watched, latencies: Inbox) -> State {
        let (explanations, rates) = (Explanations::default(), BTreeMap::new());
        State {
            about,
            watched,
            explanations,
            rates,
            recording: None,
            latencies,
            news: None,
            caller: None,
            leases: 0,
            waited: Shown::default(),
            pods: ShownPods::default(),
        }
    }

    pub(crate) fn tell_recording(&mut self, recording: impl Fn() -> wire::Recording + Send + 'static) {
        self.recording = Some(Box::new(recording));
    }

    /// Shows what workloads wait for, too.
    pub(crate) fn show_pods(&mut self, shown: ShownPods) {
        self.pods = shown;
    }

    pub(crate) fn show_waited(&mut self, shown: Shown) {
        self.waited = shown;
    }

    pub(super) fn start(&mut self, starting: Starting) {
        self.about.starting = Some(starting);
    }

    pub(crate) fn follow(&mut self, news: Receiver<News>) {
        self.news = Some(news);
    }

    /// Control calls go to this loop.
    pub fn obey(&mut self, caller: Caller) {
        self.caller = Some(caller);
    }

    /// The way to the loop, and the number of a new lease; None: nothing obeys.
    pub(super) fn caller(&mut self) -> Option<(Caller, u64)> {
        self.leases += 1;
        Some((self.caller.clone()?, self.leases))
    }

    /// The workloads whose last settings were refused, one line each.
    pub(super) fn refused(&self) -> Vec<String> {
        self.explanations
            .refused()
            .map(|(name, why)| format!("{name}: the last settings were refused: {why}"))
            .collect()
    }

    /// Takes in the loop's snapshots and decisions. Must be called several times a second, so that none is lost.
    pub fn refresh(&mut self) {
        if let Some(newest) = self.news.as_ref().and_then(|news| news.try_iter().last()) {
            if newest.off.is_some() != self.about.news.off.is_some() {
                // Everything was put back, or is about to be set anew.
                self.explanations.keep_knobs(|_| false);
            }
            self.about.news = newest;
        }
        for decision in self.watched.decisions() {
            self.explanations.add(decision);
        }
        let glance = self.watched.glance();
        let columns = &glance.view.workloads;
        for (slot, spec) in columns.spec.iter().enumerate() {
            let id = WorkloadId(slot as u32);
            let Some(spec) = spec else {
                self.rates.remove(&id);
                continue;
            };
            let rate = self.rates.entry(id).or_default();
            if rate.name != spec.name {
                *rate = Rate { name: spec.name.clone(), ..Rate::default() };
            }
            rate.run_time.read(at(&columns.run_time, slot));
            rate.run_delay.read(at(&columns.run_delay, slot));
        }
        if self.explanations.knobs_outnumber(columns.spec.len()) {
            let mut known: HashSet<String> = columns.spec.iter().flatten().map(|spec| spec.name.clone()).collect();
            // One of the configuration may be attached in a glance that is still to come.
            known.extend(self.watched.roster().iter().map(|entry| entry.workload.name.clone()));
            self.explanations.keep_knobs(|name| known.contains(name));
        }
    }

    /// Takes a histogram that a client posted; `now` is CLOCK_MONOTONIC.
    pub(super) fn post(&mut self, now: Nanos, histogram: &wire::Histogram) -> Result<wire::Accepted, Rejected> {
        self.latencies.post(&self.watched.glance().view, now, histogram)
    }

    /// Takes what was read of a service's own histogram.
    pub(super) fn take_reading(&mut self, reading: &Reading) -> Result<(), Rejected> {
        self.latencies.take(&self.watched.glance().view, reading)
    }

    /// Everything at a glance.
    pub fn status(&mut self) -> wire::Status {
        let lost = self.watched.lost();
        let roster = self.watched.roster().clone();
        let glance = self.watched.glance();
        let view = &glance.view;
        let ids = view.workloads.spec.iter().enumerate().filter(|(_, spec)| spec.is_some());
        let configured = configured(&roster, view);
        wire::Status {
            agent: agent(&self.about, self.waited.agent(), self.recording.as_deref().map(|recording| recording())),
            now_ns: view.now.0,
            turns: glance.turn,
            layers: glance.layers.iter().map(|layer| told_layer(view, layer)).collect(),
            workloads: ids
                .filter_map(|(slot, _)| {
                    workload(glance, WorkloadId(slot as u32), &self.rates, &self.explanations, &roster, &self.waited)
                })
                .collect(),
            configured,
            cpus: cpus(view),
            kubernetes: self.pods.get(),
            measured: Measurements::by(|signal| Measured::of(&view.number(signal, 0), view.now)),
            decisions: self.explanations.recent().take(DECISIONS).cloned().collect(),
            decisions_lost: lost,
        }
    }

    /// The last decisions about a workload; None: nothing is known of it.
    pub fn why(&mut self, name: &str) -> Option<wire::Why> {
        let lost = self.watched.lost();
        let named: Roster = self.watched.roster().iter().filter(|entry| entry.workload.name == name).cloned().collect();
        let glance = self.watched.glance();
        let configured = configured(&named, &glance.view).pop();
        let slot = glance.view.workloads.spec.iter().position(|spec| spec.as_ref().is_some_and(|s| s.name == name));
        let workload = slot.and_then(|slot| {
            workload(glance, WorkloadId(slot as u32), &self.rates, &self.explanations, &named, &self.waited)
        });
        let decisions = self.explanations.of(name);
        if workload.is_none() && configured.is_none() && decisions.is_none() {
            return None;
        }
        let decisions = decisions.unwrap_or_default();
        let degraded = self.about.degraded.clone();
        Some(wire::Why { now_ns: glance.view.now.0, workload, configured, degraded, decisions, decisions_lost: lost })
    }

    /// A thread of a workload.
    pub fn thread(&mut self, tid: i32) -> Option<wire::Thread> {
        let roster = self.watched.roster().clone();
        let view = &self.watched.glance().view;
        let row = view.threads.id.iter().position(|id| id.tid == tid)?;
        let workload = view.workload(view.threads.workload[row])?.name.clone();
        // The roster is newer than the last turn's view: what left it is put back.
        if !roster.is_empty() && roster.iter().all(|entry| entry.workload.name != workload) {
            return None;
        }
        Some(wire::Thread { tid, start: view.threads.id[row].start, workload })
    }

    /// A workload of the configuration that is not attached.
    pub(super) fn absent(&mut self, name: &str) -> Option<wire::Configured> {
        let why = self.why(name)?;
        why.configured.filter(|_| why.workload.is_none())
    }

    /// Every known policy.
    pub fn policies(&mut self) -> Vec<wire::Policy> {
        let glance = self.watched.glance();
        let active = |name| glance.layers.iter().any(|layer| layer.policy == name);
        AnyPolicy::ALL
            .iter()
            .map(|policy| wire::Policy {
                name: policy.name.to_owned(),
                summary: policy.summary.to_owned(),
                source: policy.source.to_owned(),
                interval_ns: policy.interval.0,
                signals: policy.signals.iter().map(|need| need.what.name().to_owned()).collect(),
                knobs: policy.knobs.iter().map(|need| need.what.name().to_owned()).collect(),
                rules: policy.rules.iter().map(|need| need.what.name().to_owned()).collect(),
                grants: policy.grants,
                active: active(policy.name),
            })
            .collect()
    }
}

/// A signal of a workload or, if it is one of threads, the sum over the workload's.
fn measured(view: &View, id: WorkloadId, signal: Signal) -> Option<Measured> {
    if signal.info().of != Subject::Thread {
        return Measured::of(&view.number(signal, id.index()), view.now);
    }
    let threads = &view.threads;
    let of_it = threads.workload.iter().enumerate().filter(|(_, owner)| **owner == id);
    let known = of_it.filter_map(|(row, _)| threads.number(signal, row));
    let sum = known.fold(None, |sum: Option<f64>, number| Some(sum.unwrap_or(0.0) + number))?;
    Measured::of(&Sample::exact(sum, threads.at), view.now)
}

fn agent(about: &About, attribution: Option<wire::Attribution>, recording: Option<wire::Recording>) -> wire::Agent {
    let own = crate::own::usage();
    wire::Agent {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        mode: about.mode.clone(),
        host: about.host.clone(),
        limits: about.limits.clone(),
        warnings: about.news.warnings.clone(),
        notices: about.news.notices.clone(),
        unplaced_cgroups: about.news.unplaced_cgroups,
        off: about.news.off.clone(),
        not_reloaded: about.news.not_reloaded.clone(),
        stale: about.news.stale.clone(),
        degraded: about.degraded.clone(),
        starting: about.starting.as_ref().map(|starting| starting.line(clock::now())),
        attribution,
        cpu_seconds: own.cpu_seconds,
        resident_bytes: own.resident_bytes,
        recording,
    }
}

fn told_layer(view: &View, layer: &crate::watch::LayerGlance) -> wire::Layer {
    let name = |id: &WorkloadId| view.workloads.spec.get(id.index())?.as_ref().map(|spec| spec.name.clone());
    wire::Layer {
        policy: layer.policy.to_owned(),
        workloads: layer.workloads.as_ref().map(|ids| ids.iter().filter_map(name).collect()),
        pool: layer.pool.to_string(),
        steps: layer.counts.steps,
        knobs: layer.counts.knobs,
        grants: layer.counts.grants,
        others: layer.counts.others,
        refused: layer.counts.refused,
        trials: wire::TrialCounts {
            helped: layer.counts.trials.helped,
            harmed: layer.counts.trials.harmed,
            no_effect: layer.counts.trials.no_effect,
            unclear: layer.counts.trials.unclear,
            aborted: layer.counts.trials.aborted,
        },
    }
}

fn workload(
    glance: &Glance,
    id: WorkloadId,
    rates: &BTreeMap<WorkloadId, Rate>,
    explanations: &Explanations,
    roster: &Roster,
    waited: &Shown,
) -> Option<wire::Workload> {
    let (view, slot) = (&glance.view, id.index());
    let spec = view.workloads.spec.get(slot)?.as_ref()?;
    let columns = &view.workloads;
    let now = view.now;
    let rate = rates.get(&id);
    let held: CpuSet = holders(view).filter(|&(_, holder)| holder == id).map(|(cpu, _)| cpu).collect();
    let entry = roster.iter().find(|entry| entry.workload.name == spec.name);
    // What was set on one that is not there any more is put back.
    let is_there = entry.is_none_or(|entry| entry.standing == Standing::Attached);
    let knobs: Vec<&Knob> = explanations.knobs(&spec.name).filter(|_| is_there).collect();
    let kept_on = knobs.iter().find_map(|knob| match knob {
        Knob::Cpus(cpus) => Some(*cpus),
        _ => None,
    });
    let grants = glance.layers.iter().any(|layer| layer.counts.grants > 0);
    let granted = if grants { Some(held) } else { kept_on };
    let latency = at(&columns.latency, slot);
    let known = latency.usable();
    let exhausted = glance.exhausted.get(slot).copied().unwrap_or_default();
    Some(wire::Workload {
        name: spec.name.clone(),
        class: if spec.is_lc() { wire::Class::Lc } else { wire::Class::Be },
        policies: glance
            .layers
            .iter()
            .filter(|layer| layer.workloads.as_ref().is_none_or(|owned| owned.contains(&id)))
            .map(|layer| layer.policy.to_owned())
            .collect(),
        cpus_requested: spec.cpus.as_f64(),
        cpus_limit: spec.limit.map(|limit| limit.as_f64()),
        cpus_used: rate.and_then(|rate| rate.run_time.measured(now)),
        cpus_granted: granted.map(|cpus| cpus.to_string()),
        cpus_granted_count: granted.map(|cpus| cpus.len() as u32),
        threads: measured(view, id, Signal::ThreadCount),
        threads_waiting: rate.and_then(|rate| rate.run_delay.measured(now)),
        slo: spec.slo.map(|slo| wire::Slo { quantile: slo.quantile, bound_ns: slo.bound.0 }),
        slo_met: spec.slo.and_then(|slo| Some(known? <= slo.bound)),
        slo_ratio: spec.slo.and_then(|slo| Some(known?.0 as f64 / slo.bound.0.max(1) as f64)),
        demotions: explanations.demotions(&spec.name),
        demotions_last_minute: explanations.demotions_since(&spec.name, now - MINUTE),
        refused: explanations.refusal(&spec.name).map(str::to_owned),
        budgets_exhausted: exhausted.times,
        longest_overrun_ns: exhausted.longest_overrun.0,
        cpus_exclusive: kept_on.filter(|_| spec.is_lc()).and_then(|own| exclusive(glance, explanations, id, &own)),
        waited: waited.of(&spec.name),
        measured: Measurements::by(|signal| measured(view, id, signal)),
        knobs: knobs.into_iter().map(|knob| standing(knob, entry)).collect(),
    })
}

/// Does nothing else run on these CPUs, which it is kept on? None: others that are managed may run there.
fn exclusive(glance: &Glance, explanations: &Explanations, id: WorkloadId, own: &CpuSet) -> Option<bool> {
    let specs =
        glance.view.workloads.spec.iter().zip(0..).filter_map(|(spec, slot)| Some((WorkloadId(slot), spec.as_ref()?)));
    let apart =
        |name: &str| explanations.knobs(name).any(|knob| matches!(knob, Knob::Cpus(cpus) if cpus.is_disjoint(own)));
    let alone = specs.filter(|(other, _)| *other != id).all(|(_, spec)| apart(&spec.name));
    let name = &glance.view.workloads.spec.get(id.index())?.as_ref()?.name;
    alone.then(|| explanations.knobs(name).any(|knob| *knob == Knob::Partition(true)))
}

fn holders(view: &View) -> impl Iterator<Item = (quell_model::CpuId, WorkloadId)> + '_ {
    let numbered = view.cpus.holder.iter().enumerate();
    numbered.filter_map(|(cpu, holder)| Some((quell_model::CpuId(cpu as u32), (*holder)?)))
}

/// The workload on each CPU: its holder, else the workload of a runnable thread that is on it.
fn cpus(view: &View) -> Vec<wire::Cpu> {
    let mut runs: Vec<Option<WorkloadId>> = vec![None; view.topology.columns()];
    for (cpu, holder) in holders(view) {
        if let Some(slot) = runs.get_mut(cpu.index()) {
            *slot = Some(holder);
        }
    }
    let threads = &view.threads;
    for ((state, cpu), owner) in threads.state.iter().zip(&threads.cpu).zip(&threads.workload) {
        if *state == ThreadState::Runnable
            && let Some(slot) = runs.get_mut(cpu.index())
        {
            slot.get_or_insert(*owner);
        }
    }
    let name = |id: WorkloadId| view.workloads.spec.get(id.index())?.as_ref().map(|spec| spec.name.clone());
    let cpus = view.topology.cpus().iter();
    cpus.map(|cpu| {
        let runs = runs[cpu.id.index()].and_then(name);
        let state = if !view.cpus.online.contains(cpu.id) {
            wire::CpuState::Offline
        } else if runs.is_none() && view.cpus.isolated.contains(cpu.id) {
            wire::CpuState::Isolated
        } else if view.cpus.banned.contains(cpu.id) {
            wire::CpuState::Banned
        } else if view.cpus.away.contains(cpu.id) {
            wire::CpuState::RealTime
        } else if view.cpus.idle.contains(cpu.id) {
            wire::CpuState::Idle
        } else if runs.is_some() {
            wire::CpuState::Busy
        } else {
            wire::CpuState::Unknown
        };
        wire::Cpu { cpu: cpu.id.0, core: cpu.core, state, workload: runs }
    })
    .collect()
}

/// Limits of a stack's policies on a host and their reasons, one line each, with the policy's name.
#[must_use]
pub fn limits(capabilities: &quell_model::Capabilities, layers: &[crate::stack::Layer]) -> Vec<String> {
    let of = |layer: &crate::stack::Layer| {
        let description = Policy::<HostDomain>::describe(&layer.policy);
        let limits = capabilities.fidelity(description).limits;
        limits.into_iter().map(|limit| format!("{}: {limit}", description.name)).collect::<Vec<_>>()
    };
    layers.iter().flat_map(of).collect()
}
