//! `his`: profile the foreground alone, find the dominant contention beside others, isolate step by step
//! (snu2020 chapter 3, §3.4).
//!
//! One foreground workload — a latency-critical one — and a background of best-effort ones form a group; "we also assume
//! there is one foreground workload in the workload group". With several foregrounds each socket is a group ([`place`]),
//! and two groups may exchange their backgrounds (`migrate`). Each look, every 100 ms, is one turn of
//! the paper's loop: solo-run mode where there is no solo-run data or it is outdated or the phase changed; otherwise
//! contention = co-run − solo run ([`crate::kit::contention`]); a technique against the dominant one ([`decide`]); one configuration
//! step of it, until the contention is below the threshold or there is no further step ([`isolate`]).

mod config;
pub mod decide;
mod group;
mod invariants;
pub mod isolate;
mod migrate;
pub mod place;

use quell_model::{
    CpuSet, Description, Event, Key, Knob, KnobKind, KnobSetting, Nanos, Need, NodeSet, NoteKind, Part, Plan, Policy,
    Signal, SignalSet, Target, Uses, Verdict, View, Wake,
};
use serde::{Deserialize, Serialize};

use decide::Technique;
use group::Group;
use isolate::Isolation;
use migrate::Migration;
use place::Place;

use crate::kit::profile::Solo;
use crate::kit::retry::{self, Retry};

pub use config::HisConfig;

/// Settings of a removed group, and the time of their removal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Restore {
    touched: [bool; 5],
    retry: Retry,
    /// The plan that does it, once one does.
    plan: Option<u64>,
    /// The CPUs on which it was done. Those that come back later are not in what was lifted.
    done: Option<CpuSet>,
}

/// The memory of the workloads, which follows them to their sockets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Memory {
    /// It is where it is to be, or stays where it is.
    Settled,
    /// It is to follow.
    Due,
    /// The plan of this number moves it.
    Moving(u64),
}

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct His {
    config: HisConfig,
    groups: Vec<Group>,
    migration: Migration,
    memory: Memory,
    restore: Option<Restore>,
    /// The CPUs at the last step.
    pool: CpuSet,
}

impl His {
    /// The policy.
    #[must_use]
    pub fn new(config: HisConfig) -> His {
        His {
            config,
            groups: Vec::new(),
            migration: Migration::default(),
            memory: Memory::Settled,
            restore: None,
            pool: CpuSet::EMPTY,
        }
    }

    /// Its name and its needs.
    pub const DESCRIPTION: Description = Description {
        name: "his",
        summary: "profiles the LC workload alone, finds the dominant contention, isolates by hardware first",
        source: "HIS: dissertation, Seoul National University 2020, chapter 3 (§3.4)",
        interval: Nanos::from_millis(100),
        signals: &[
            Need::must(Signal::RunTime),
            Need::or(Signal::LlcHitRatio, "LLC contention is not detected"),
            Need::or(Signal::WorkloadBandwidth, "memory bandwidth contention is not detected"),
            Need::or(
                Signal::ThreadCount,
                "CPU contention, and a changed number of threads as another phase, are not seen",
            ),
            Need::or(Signal::InstructionRate, "sockets do not exchange their background"),
            Need::or(Signal::CycleRate, "where no latency is reported, trials are judged by the contention"),
            Need::or(Signal::Latency, "trials are judged by cycles an instruction"),
            Need::or(Signal::RequestRate, "a load that moved during a trial is known by instructions alone"),
        ],
        knobs: &[
            Need::must(KnobKind::Cpus),
            Need::or(KnobKind::CacheWays, "LLC contention is met by core allocation alone"),
            Need::or(KnobKind::MaxFrequencyKhz, "memory bandwidth contention is met by core allocation alone"),
            Need::or(KnobKind::Throttle, "`throttle = true` has no effect"),
            Need::or(KnobKind::MemoryNodes, "memory does not follow a background to another socket"),
        ],
        rules: &[],
        keys: &[Uses::critical(Key::Cpus), Uses::critical(Key::Pausable)],
        grants: false,
    };

    /// The isolation that is enforced on the first group, if there is one.
    #[must_use]
    pub fn isolation(&self) -> Option<Isolation> {
        self.groups.first().map(Group::isolation)
    }

    /// The solo-run data of the first group.
    #[must_use]
    pub fn solo(&self) -> Option<Solo> {
        self.groups.first().and_then(Group::solo)
    }

    /// The groups, each with its isolation.
    pub fn groups(&self) -> impl Iterator<Item = (&Place, Isolation)> {
        self.groups.iter().map(|group| (group.place(), group.isolation()))
    }

    /// Finds the foregrounds and their backgrounds. Without both there is nothing to keep apart.
    fn meet(&mut self, view: &View, plan: &mut Plan) {
        let before: Vec<Place> = self.groups.iter().map(|group| group.place().clone()).collect();
        let places = place::groups(view, &before);
        let restore = self.restore.take();
        let mut touched = restore.map_or([false; 5], |restore| restore.touched);
        for group in &self.groups {
            touched.iter_mut().zip(group.touched()).for_each(|(all, own)| *all |= own);
        }
        let mut old = std::mem::take(&mut self.groups);
        for place in places {
            let known = old.iter().position(|group| group.foreground() == place.foreground);
            self.groups.push(match known {
                Some(at) => {
                    let mut group = old.swap_remove(at);
                    group.moves(view, place, plan);
                    group
                }
                None => Group::new(view, place, touched),
            });
        }
        if self.groups.is_empty() && touched.contains(&true) {
            let anew = Restore { touched, retry: Retry::up_to(retry::FIRST), plan: None, done: None };
            let done = restore.filter(|restore| restore.done == Some(view.pool()));
            self.restore = Some(done.unwrap_or(anew));
        }
        let is_foreground = |id| self.groups.iter().any(|group| group.foreground() == id);
        if !self.groups.is_empty() {
            for (id, _) in view.owned().filter(|(id, spec)| spec.is_lc() && !is_foreground(*id)) {
                let text = "HIS knows one foreground workload a group (§3.4), and one group a socket: this one is left as it is";
                plan.note(NoteKind::Refused, Some(id), text);
            }
        }
    }

    /// The two groups exchange their backgrounds; memory follows.
    fn exchange(&mut self, view: &View, plan: &mut Plan) {
        let [one, other] = &mut self.groups[..] else { return };
        let (mut first, mut second) = (one.place().clone(), other.place().clone());
        std::mem::swap(&mut first.background, &mut second.background);
        plan.note(NoteKind::Because, Some(first.foreground), "the other socket's background costs less: exchanged");
        one.moves(view, first, plan);
        other.moves(view, second, plan);
        self.memory = Memory::Due;
    }

    /// Memory of the backgrounds on their group's sockets: a plan of its own, since a host may refuse it.
    fn move_memory(&mut self, view: &View, plan: &mut Plan) {
        if self.memory != Memory::Due || !plan.knobs.is_empty() || view.controls.nodes.len() < 2 {
            return;
        }
        for place in self.groups.iter().map(Group::place) {
            let cpus = place.cpus(view);
            let own = view.topology.cpus().iter().filter(|cpu| cpus.contains(cpu.id));
            let nodes = NodeSet(own.fold(0, |nodes, cpu| nodes | NodeSet::one(cpu.node).0));
            for &id in place.background.iter().filter(|id| view.workload(**id).is_some()) {
                plan.knobs.push(KnobSetting { target: Target::Workload(id), knob: Knob::MemoryNodes(nodes) });
            }
        }
        self.memory = if plan.knobs.is_empty() { Memory::Settled } else { Memory::Moving(plan.number) };
    }

    /// Restores the settings that a group left behind; returns the time of the next try.
    fn put_back(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        let Some(restore) = &mut self.restore else { return Wake::OnEvent };
        for event in events {
            if let Event::Outcome(outcome) = event
                && outcome.part == Part::Knobs
                && Some(outcome.plan) == restore.plan
            {
                let Verdict::Refused(why) = &outcome.verdict else {
                    self.restored(view);
                    return Wake::OnEvent;
                };
                restore.plan = None;
                restore.retry.refused(view.now, why, plan);
            }
        }
        if restore.done.is_some() {
            return Wake::OnEvent;
        }
        if restore.plan.is_some() || restore.retry.is_ahead(view.now) {
            return restore.retry.wake();
        }
        let touched = Technique::ALL.into_iter().filter(|technique| restore.touched[*technique as usize]);
        touched.for_each(|technique| isolate::lift(technique, view, plan));
        if plan.knobs.is_empty() {
            self.restored(view);
        } else {
            restore.plan = Some(plan.number);
        }
        Wake::OnEvent
    }

    /// The settings are restored on the CPUs of the pool: for good if these are all.
    fn restored(&mut self, view: &View) {
        let all = view.pool() == view.topology.all();
        let done = |restore| Restore { done: Some(view.pool()), plan: None, ..restore };
        self.restore = self.restore.filter(|_| !all).map(done);
    }
}

impl Policy for His {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    /// What trials are judged by is asked for only where there are trials.
    fn signals(&self) -> SignalSet {
        let all = Self::DESCRIPTION.signal_set();
        let trials = SignalSet::of(&[Signal::CycleRate, Signal::Latency, Signal::RequestRate]);
        if self.config.verify { all } else { all.difference(trials) }
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        let comes_or_goes = |event: &Event| matches!(event, Event::Attached(_) | Event::Detached(_));
        let other_pool = std::mem::replace(&mut self.pool, view.pool()) != view.pool();
        let changed = other_pool || events.iter().any(comes_or_goes);
        let is_solo = |event: &Event| matches!(event, Event::SoloBegan(_) | Event::SoloEnded(..));
        for group in &mut self.groups {
            group.handle(view, events, plan);
            if events.iter().any(is_solo) {
                group.others_paused(view.now);
            }
        }
        for event in events {
            if let Event::Outcome(outcome) = event
                && outcome.part == Part::Knobs
                && self.memory == Memory::Moving(outcome.plan)
            {
                self.memory = Memory::Settled;
                if let Verdict::Refused(why) = &outcome.verdict {
                    plan.note(NoteKind::Warning, None, format!("memory stays where it is: {why}"));
                }
            }
        }
        if changed {
            self.meet(view, plan);
        }
        if self.groups.is_empty() {
            return self.put_back(view, events, plan);
        }
        if self.migration.look(view, &self.groups, &self.config) {
            self.exchange(view, plan);
        }
        // A plan is one group's: a refusal is about that one alone.
        let mut wake = Wake::OnEvent;
        for group in &mut self.groups {
            wake = wake.sooner(match plan.knobs.is_empty() && plan.leases.is_empty() {
                true => group.turn(view, &self.config, plan),
                false => Wake::At(view.now + TURN),
            });
        }
        self.move_memory(view, plan);
        wake
    }
}

/// Time until the next group's turn.
const TURN: Nanos = Nanos::from_millis(1);

#[cfg(test)]
mod tests;
