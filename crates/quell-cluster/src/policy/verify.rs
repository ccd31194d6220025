//! Moves judged after the fact: prediction and measurement of the victim before, and two windows after.

use quell_model::cluster::{ClusterView, HostId};
use quell_model::{Nanos, WorkloadId};
use serde::{Deserialize, Serialize};

use super::kit;

/// Windows after the end of a move at which it is judged.
const WINDOWS: u64 = 2;
/// A latency that is this multiple of the one before is worse.
const WORSE: f64 = 1.1;

/// A move that was judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The service for which it was made.
    pub victim: WorkloadId,
    /// The workload that moved.
    pub moved: WorkloadId,
    /// Its old host.
    pub from: HostId,
    /// Its new one.
    pub to: HostId,
    /// Time of the judgement.
    pub at: Nanos,
    /// The victim's latency before: measured where the service reports it, else predicted.
    pub before: Nanos,
    /// Two windows after the move's end.
    pub after: Nanos,
    /// Is it lower by more than the margin?
    pub helped: bool,
}

/// What a move did to the service for which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Its latency is lower.
    Helped,
    /// It is the same, within the margin.
    NoEffect,
    /// It is higher.
    Worse,
}

impl Judged {
    /// The judgement in one word.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let higher = self.after.0 as f64 > self.before.0 as f64 * WORSE;
        match (self.helped, higher) {
            (true, _) => Verdict::Helped,
            (false, false) => Verdict::NoEffect,
            (false, true) => Verdict::Worse,
        }
    }
}

impl Verdict {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Helped => "helped",
            Verdict::NoEffect => "no effect",
            Verdict::Worse => "worse",
        }
    }
}

/// A move under way or not yet judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Trial {
    victim: WorkloadId,
    from: HostId,
    to: HostId,
    before: Nanos,
    /// Time of the judgement; None: under way.
    due: Option<Nanos>,
}

/// A service's pause between moves made for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Pause {
    /// The present one; doubled by each move that did not help.
    wait: Nanos,
    until: Nanos,
}

/// The trials of a policy. Its lists keep their memory, and have room for as many workloads as there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verify {
    trials: ById<Trial>,
    pauses: ById<Pause>,
    judged: Vec<Judged>,
}

/// One of each of some workloads, ascending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ById<T>(Vec<(WorkloadId, T)>);

impl<T> Default for ById<T> {
    fn default() -> ById<T> {
        ById(Vec::new())
    }
}

impl<T> ById<T> {
    fn find(&self, id: WorkloadId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |(id, _)| *id)
    }

    fn get(&self, id: WorkloadId) -> Option<&T> {
        self.find(id).ok().map(|at| &self.0[at].1)
    }

    fn get_mut(&mut self, id: WorkloadId) -> Option<&mut T> {
        self.find(id).ok().map(|at| &mut self.0[at].1)
    }

    /// Puts it in the place of the one before.
    fn insert(&mut self, id: WorkloadId, value: T) {
        match self.find(id) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (id, value)),
        }
    }

    fn remove(&mut self, id: WorkloadId) {
        if let Ok(at) = self.find(id) {
            self.0.remove(at);
        }
    }
}

/// The longest pause after moves that did not help (ours).
const LONGEST: Nanos = Nanos::from_secs(3600);
/// Judgements that are kept.
const KEPT: usize = 4096;

/// The latency of a service by which moves for it are judged: measured where it is fresh, else predicted.
#[must_use]
pub fn felt(view: &ClusterView, service: WorkloadId) -> Option<Nanos> {
    let (workloads, at) = (&view.workloads, service.index());
    workloads.latency[at].usable().or_else(|| workloads.predicted[at].usable())
}

impl Verify {
    /// May a move be made for this service now? Not while one is under way or unjudged, nor in the pause after one that
    /// did not help.
    #[must_use]
    pub fn may(&self, now: Nanos, victim: WorkloadId) -> bool {
        !self.trials.0.iter().any(|(_, trial)| trial.victim == victim)
            && self.pauses.get(victim).is_none_or(|pause| pause.until <= now)
    }

    /// A move of one workload was ordered for a service.
    pub fn began(&mut self, view: &ClusterView, victim: WorkloadId, moved: WorkloadId, from: HostId, to: HostId) {
        let before = felt(view, victim).unwrap_or_default();
        kit::make_room(&mut self.trials.0, view);
        self.trials.insert(moved, Trial { victim, from, to, before, due: None });
    }

    /// The move did not take place, or not to its end: nothing is to be judged.
    pub fn failed(&mut self, moved: WorkloadId) {
        self.trials.remove(moved);
    }

    /// The workload has arrived.
    pub fn arrived(&mut self, now: Nanos, window: Nanos, moved: WorkloadId) {
        if let Some(trial) = self.trials.get_mut(moved) {
            trial.due = Some(now + Nanos(WINDOWS * window.0));
        }
    }

    /// Judges what is due; returns the judgements. A service that is gone or says nothing is not judged.
    pub fn judge(&mut self, view: &ClusterView, margin: f64, interval: Nanos) -> &[Judged] {
        if self.judged.len() > KEPT {
            self.judged.drain(..KEPT / 2);
        }
        let begun = self.judged.len();
        kit::make_room(&mut self.pauses.0, view);
        let is_due = |(_, trial): &(WorkloadId, Trial)| trial.due.is_some_and(|due| due <= view.now);
        while let Some(at) = self.trials.0.iter().position(is_due) {
            let (moved, trial) = self.trials.0.remove(at);
            // All of it at once: later ones find room.
            self.judged.reserve((KEPT + KEPT / 2).saturating_sub(self.judged.len()));
            let victim = trial.victim;
            let there = view.workloads.present.get(victim.index()).copied().unwrap_or(false);
            let Some(after) = felt(view, victim).filter(|_| there) else { continue };
            let helped = (after.0 as f64) < trial.before.0 as f64 * (1.0 - margin);
            if helped {
                self.pauses.remove(victim);
            } else {
                let before = self.pauses.get(victim).map_or(interval, |pause| pause.wait);
                let wait = Nanos(before.0.saturating_mul(2)).min(LONGEST);
                self.pauses.insert(victim, Pause { wait, until: view.now + wait });
            }
            let Trial { from, to, before, .. } = trial;
            self.judged.push(Judged { victim, moved, from, to, at: view.now, before, after, helped });
        }
        &self.judged[begun..]
    }

    /// The workload is gone.
    pub fn forget(&mut self, workload: WorkloadId) {
        self.trials.0.retain(|(moved, trial)| *moved != workload && trial.victim != workload);
        self.pauses.remove(workload);
    }

    /// The judgements, oldest first.
    #[must_use]
    pub fn judged(&self) -> &[Judged] {
        &self.judged
    }
}
