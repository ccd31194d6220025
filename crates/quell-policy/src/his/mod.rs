//! `his`: profile the foreground alone, find the dominant contention beside others, isolate step by step
//! (snu2020 chapter 3, §3.4).
//!
//! One foreground workload — the latency-critical one — and a background of all best-effort ones form the group;
//! "we also assume there is one foreground workload in the workload group". Each look, every 100 ms, is one turn of
//! the paper's loop: solo-run mode where there is no solo-run data or it is outdated or the phase changed; otherwise
//! contention = co-run − solo run ([`crate::kit::contention`]); a technique against the dominant one ([`decide`]); one configuration
//! step of it, until the contention is below the threshold or there is no further step ([`isolate`]).

mod config;
pub mod decide;
mod group;
mod invariants;
pub mod isolate;

use quell_model::{
    CpuSet, Description, Event, Heeds, Key, KnobKind, Nanos, Need, NoteKind, Part, Plan, Policy, Signal, Verdict, View,
    Wake,
};
use serde::{Deserialize, Serialize};

use decide::Technique;
use group::Group;
use isolate::Isolation;

use crate::kit::profile::Solo;
use crate::kit::retry::{self, Retry};

pub use config::HisConfig;

/// Settings of a removed group, and the time of their removal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Restore {
    touched: [bool; 3],
    retry: Retry,
    /// The plan that does it, once one does.
    plan: Option<u64>,
}

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct His {
    config: HisConfig,
    group: Option<Group>,
    restore: Option<Restore>,
    /// The CPUs at the last step.
    pool: CpuSet,
}

impl His {
    /// The policy.
    #[must_use]
    pub fn new(config: HisConfig) -> His {
        His { config, group: None, restore: None, pool: CpuSet::EMPTY }
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
            Need::or(Signal::ThreadCount, "a changed number of threads is not seen as another phase"),
        ],
        knobs: &[
            Need::must(KnobKind::Cpus),
            Need::or(KnobKind::CacheWays, "LLC contention is met by core allocation alone"),
            Need::or(KnobKind::MaxFrequencyKhz, "memory bandwidth contention is met by core allocation alone"),
        ],
        rules: &[],
        keys: &[Heeds::critical(Key::Cpus), Heeds::critical(Key::Pausable)],
        grants: false,
    };

    /// The isolation that is enforced, if there is a group.
    #[must_use]
    pub fn isolation(&self) -> Option<Isolation> {
        self.group.as_ref().map(Group::isolation)
    }

    /// The solo-run data in use.
    #[must_use]
    pub fn solo(&self) -> Option<Solo> {
        self.group.as_ref().and_then(Group::solo)
    }

    /// Finds the foreground and the background. Without both there is nothing to keep apart.
    fn meet(&mut self, view: &View, changed: bool, plan: &mut Plan) {
        let has_background = view.owned().any(|(_, spec)| !spec.is_lc());
        let first = view.owned().find(|(_, spec)| spec.is_lc()).map(|(id, _)| id);
        // The foreground stays the one that it is, as long as it is there.
        let now = self.group.as_ref().map(Group::foreground);
        let stays = now.filter(|&id| view.workload(id).is_some_and(|spec| spec.is_lc()));
        let foreground = stays.or(first).filter(|_| has_background);
        if foreground != now {
            if let Some(old) = self.group.take() {
                self.restore = Some(Restore { touched: old.touched(), retry: Retry::up_to(retry::FIRST), plan: None });
            }
            if let Some(id) = foreground {
                let touched = self.restore.take().map_or([false; 3], |restore| restore.touched);
                self.group = Some(Group::new(view, id, touched, &self.config));
            }
        } else if let (true, Some(group)) = (changed, &mut self.group) {
            group.changed(view);
        }
        if changed && let Some(foreground) = foreground {
            for (id, _) in view.owned().filter(|(id, spec)| spec.is_lc() && *id != foreground) {
                let text = "HIS knows one foreground workload a group (§3.4): this one is left as it is";
                plan.note(NoteKind::Refused, Some(id), text);
            }
        }
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
                    self.restore = None;
                    return Wake::OnEvent;
                };
                restore.plan = None;
                restore.retry.refused(view.now, why, plan);
            }
        }
        if restore.plan.is_some() || restore.retry.is_ahead(view.now) {
            return restore.retry.wake();
        }
        let touched = Technique::ALL.into_iter().filter(|technique| restore.touched[*technique as usize]);
        touched.for_each(|technique| isolate::lift(technique, view, &self.config, plan));
        if plan.knobs.is_empty() {
            self.restore = None;
        } else {
            restore.plan = Some(plan.number);
        }
        Wake::OnEvent
    }
}

impl Policy for His {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        let comes_or_goes = |event: &Event| matches!(event, Event::Attached(_) | Event::Detached(_));
        let other_pool = std::mem::replace(&mut self.pool, view.pool()) != view.pool();
        let changed = other_pool || events.iter().any(comes_or_goes);
        if let Some(group) = &mut self.group {
            group.hear(view, events, plan);
        }
        self.meet(view, changed, plan);
        match &mut self.group {
            Some(group) => group.turn(view, &self.config, plan),
            None => self.put_back(view, events, plan),
        }
    }
}

#[cfg(test)]
mod tests;
