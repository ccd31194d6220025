//! `caladan`: keep queueing delay low by moving cores every 10 µs (caladan-osdi20 §5.1–5.2, Algorithms 1–3, App. A).
//!
//! Two controllers detect interference and constrain the core allocator: the memory bandwidth controller
//! (`bandwidth`, Algorithm 2) limits *how many* cores a best-effort task may have, the hyperthread controller
//! (`hyperthread`, Algorithm 3) bans *which* cores may be used. Within these constraints the top-level allocator
//! (`allocator`, Algorithm 1) grants cores to tasks whose queueing delay is too long.
//!
//! The paper's words are kept here: a *core* is what has a runqueue (a CPU, in Quell's words), a *task* is a workload.
//! The paper shows its algorithms "as synchronous code for clarity, but … all code is asynchronous in practice"
//! (§5.2); here a `sleep` is the end of a step.

mod allocator;
mod bandwidth;
mod config;
mod felt;
mod hyperthread;
mod invariants;
mod limits;
mod standing;

use quell_model::{Description, Event, Nanos, Need, NoteKind, Plan, Policy, RuleKind, Signal, SignalSet, View, Wake};
use serde::{Deserialize, Serialize};

use bandwidth::Bandwidth;
use hyperthread::Hyperthread;
use standing::StandingOrders;

use crate::cores::{self, Cores, Tasks};
use crate::kit::once::Once;

pub use config::{CaladanConfig, INTERVAL, THRESH_QD, Thresholds};

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Caladan {
    config: CaladanConfig,
    tasks: Tasks,
    cores: Cores,
    bandwidth: Bandwidth,
    hyperthread: Hyperthread,
    standing: StandingOrders,
    /// Next run of the controllers and the allocator.
    next_round: Nanos,
    /// Has it been said that a queueing delay is not measured?
    said_absent: Once,
}

impl Caladan {
    /// The policy.
    #[must_use]
    pub fn new(config: CaladanConfig) -> Caladan {
        Caladan {
            tasks: Tasks::default(),
            cores: Cores::default(),
            bandwidth: Bandwidth::new(config.thresh_bw, config.thresh_slowdown),
            hyperthread: Hyperthread::default(),
            standing: StandingOrders::default(),
            next_round: Nanos::ZERO,
            said_absent: Once::default(),
            config,
        }
    }

    /// Its name and its needs.
    pub const DESCRIPTION: Description = Description {
        name: "caladan",
        summary: "cores follow queueing delay every 10 µs; memory bandwidth and hyperthread interference are detected \
                  and removed",
        source: "Fried et al., OSDI 2020, §5.1–5.2, Algorithms 1–3, Appendix A",
        interval: INTERVAL,
        signals: &[
            Need::must(Signal::Holder),
            Need::must(Signal::QueueingDelay),
            Need::or(Signal::MemoryBandwidth, "memory bandwidth interference is not detected by thresh_bw"),
            Need::or(Signal::MemorySlowdown, "memory bandwidth interference is not detected by thresh_slowdown"),
            Need::or(
                Signal::LlcMisses,
                "memory bandwidth cannot be attributed to workloads: thresh_bw removes no interference, thresh_slowdown takes the \
                 cores of the workload that has most",
            ),
            Need::or(Signal::RequestStart, "hyperthread interference is not detected"),
            Need::or(Signal::UnreadDelay, "data that lies unread in sockets is no part of the queueing delay"),
        ],
        knobs: &[],
        rules: &[
            Need::or(RuleKind::Guaranteed, "guaranteed cores are granted at the next round, not at the wake-up"),
            Need::or(RuleKind::Burst, "burstable cores are granted at the next round, not at the wake-up"),
            Need::or(RuleKind::Limit, "limits bind the allocator alone"),
            Need::or(RuleKind::Rank, "a core that is yielded goes on at the next step"),
            Need::or(RuleKind::SiblingBan, "hyperthread interference is not removed"),
        ],
        keys: cores::KEYS,
        grants: true,
    };

    /// The controllers and the allocator, once.
    fn round(&mut self, view: &View, plan: &mut Plan) {
        self.bandwidth.poll(view, &self.tasks, &mut self.cores, plan);
        self.hyperthread.control(view, &self.tasks, &mut self.cores, plan);
        self.allocate_cores(view, plan);
        if self.config.rules {
            self.standing.update(&self.tasks, &self.bandwidth, plan);
        }
    }

    fn note_provisioning(&self, plan: &mut Plan) {
        let (guaranteed, cores) = (self.tasks.guaranteed(), self.cores.pool().len() as u32);
        if guaranteed > cores {
            let text = format!("{guaranteed} cores are guaranteed, but there are {cores}: lower a request");
            plan.note(NoteKind::Warning, None, text);
        } else if guaranteed == cores && cores > 0 {
            let text = format!(
                "all {cores} cores are guaranteed: no room is left to manage interference (§5.1); leave some cores \
                 unguaranteed"
            );
            plan.note(NoteKind::Warning, None, text);
        }
    }
}

impl Policy for Caladan {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    /// The memory bandwidth controller's signals have a cost, and so has looking at sockets.
    fn signals(&self) -> SignalSet {
        let mut wanted = Self::DESCRIPTION.signal_set();
        wanted = wanted.difference(bandwidth::SIGNALS).union(self.bandwidth.signals());
        if !self.config.sockets {
            wanted = wanted.difference(SignalSet::of(&[Signal::UnreadDelay]));
        }
        wanted
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        let changed = self.tasks.meet(view, events, |spec| self.config.thresholds(&spec.name));
        self.cores.look(view, events, self.tasks.slots());
        self.hyperthread.handle(view, events, &mut self.cores);
        self.standing.handle(events);
        self.bandwidth.handle(view, events, &self.tasks, &mut self.cores, plan);
        if changed {
            self.note_provisioning(plan);
        }
        // As a yielded core it goes on at once. Idle until its turn in a round, it would be the other core to which the
        // next ban may send an LC task, and under high load cores would idle one after the other.
        while let Some(core) = self.hyperthread.free_core() {
            self.hand_on(core, view, plan);
        }
        if view.now >= self.next_round {
            self.next_round = view.now + self.config.interval;
            self.round(view, plan);
        }
        for event in events {
            if let Event::Yielded(core, _) = event {
                self.hand_on(*core, view, plan);
            }
        }
        if self.tasks.is_empty() { Wake::OnEvent } else { Wake::At(self.next_round) }
    }
}

#[cfg(test)]
mod bandwidth_tests;
#[cfg(test)]
mod tests;
