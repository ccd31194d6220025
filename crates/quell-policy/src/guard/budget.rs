//! A workload's budget: how far it may run ahead of its share, and when that will be used up.

use quell_model::{CpuCount, Knob, Nanos, SchedClass, WorkloadId};
use serde::{Deserialize, Serialize};

use super::{Conduct, SUBSTITUTE};

/// Two looks are apart by this at least.
const SOONEST: Nanos = Nanos::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WorkloadRecord {
    pub id: WorkloadId,
    pub lc: bool,
    pub guaranteed: CpuCount,
    /// CPU time that it may still use at once; refilled at the rate of its share.
    pub budget: Nanos,
    /// CPU time of its threads since the last scan.
    pub used: Nanos,
    /// CPU time and waiting time of its threads since the last scan.
    pub wanted: Nanos,
    /// CPU time since the last scan of its threads that are listed, whatever their class.
    #[serde(default)]
    pub listed: Nanos,
    /// What its cgroups had used by the last scan; and how much more of it was listed than had been used: the two are read
    /// one after the other.
    #[serde(default)]
    counted: Option<Nanos>,
    #[serde(default)]
    listed_ahead: Nanos,
    pub conduct: Conduct,
    /// The quota of its cgroup, which its real-time threads escape.
    #[serde(default)]
    pub quota: Option<CpuCount>,
    /// When its budget will be used up, if it goes on so; only where it is capped.
    #[serde(default)]
    exhausted_at: Option<Nanos>,
    /// Does its cgroup keep real-time classes from it?
    #[serde(default)]
    pub no_realtime: bool,
    /// Has its class been set, and did the host take it?
    pub set: bool,
    pub seen: bool,
}

impl WorkloadRecord {
    /// A new one, whose budget is full.
    pub fn new(
        id: WorkloadId,
        lc: bool,
        guaranteed: CpuCount,
        no_realtime: bool,
        quota: Option<CpuCount>,
        run_budget: Nanos,
    ) -> WorkloadRecord {
        let mut record = WorkloadRecord {
            id,
            lc,
            guaranteed,
            budget: Nanos::ZERO,
            used: Nanos::ZERO,
            wanted: Nanos::ZERO,
            listed: Nanos::ZERO,
            counted: None,
            listed_ahead: Nanos::ZERO,
            conduct: Conduct::default(),
            quota,
            exhausted_at: None,
            no_realtime,
            set: false,
            seen: true,
        };
        record.budget = record.most_ahead(run_budget);
        record
    }

    /// The CPUs at whose rate its budget is refilled.
    pub fn share(&self) -> CpuCount {
        self.quota.map_or(self.guaranteed, |quota| quota.min(self.guaranteed))
    }

    /// Is it promoted, and its quota no more than its guaranteed CPUs, so that its budget keeps the quota, too?
    pub fn is_capped(&self) -> bool {
        self.is_promoted() && self.has_tight_quota()
    }

    fn has_tight_quota(&self) -> bool {
        self.quota.is_some_and(|quota| quota <= self.guaranteed)
    }

    /// CPU time that it may use at once.
    pub fn most_ahead(&self, run_budget: Nanos) -> Nanos {
        self.share().of(if self.has_tight_quota() { Nanos(run_budget.0 / 2) } else { run_budget })
    }

    /// CPU time since the last scan of processes that are not listed: they ended meanwhile, or are new.
    pub fn unlisted(&mut self, counted: Option<Nanos>, full: Nanos) -> Nanos {
        let listed = std::mem::take(&mut self.listed) + self.listed_ahead;
        let Some((last, now)) = std::mem::replace(&mut self.counted, counted).zip(counted) else {
            self.listed_ahead = Nanos::ZERO;
            return Nanos::ZERO;
        };
        let used = now - last;
        self.listed_ahead = (listed - used).min(full);
        used - listed
    }

    /// Takes from the budget what was used, and adds the share of the time that passed. Is it overdrawn?
    pub fn spend(&mut self, used: Nanos, elapsed: Nanos, full: Nanos) -> bool {
        let there = self.budget + self.share().of(elapsed);
        self.budget = (there - used).min(full);
        used > there
    }

    /// When will the budget be used up? A look that came early, and found nothing used, says nothing: the kernel adds times up at
    /// ticks.
    pub fn predict(&mut self, now: Nanos, used: Nanos, elapsed: Nanos, interval: Nanos) {
        let beyond = used - self.share().of(elapsed);
        if !self.is_capped() {
            self.exhausted_at = None;
        } else if beyond > Nanos::ZERO && elapsed > Nanos::ZERO {
            self.exhausted_at = Some(now + elapsed.scaled(self.budget.0 as f64 / beyond.0 as f64));
        } else if elapsed.0 >= interval.0 / 4 {
            self.exhausted_at = None;
        }
    }

    /// When it is to be looked at before an interval is over.
    pub fn next_look(&self, now: Nanos, interval: Nanos) -> Option<Nanos> {
        let half = now + Nanos(interval.0 / 2);
        self.is_capped().then(|| self.exhausted_at.map_or(half, |at| at.max(now + SOONEST).min(half)))
    }

    pub fn is_promoted(&self) -> bool {
        self.lc && self.guaranteed > CpuCount::ZERO && self.conduct.demoted_until.is_none()
    }

    /// The class of its threads while it is promoted.
    pub fn class(&self, priority: u8) -> Knob {
        Knob::Class(if self.no_realtime { SUBSTITUTE } else { SchedClass::Fifo { priority } })
    }
}
