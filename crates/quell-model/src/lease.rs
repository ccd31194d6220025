//! Solo runs: a workload runs alone for a while so that it can be profiled.
//!
//! A solo run is a lease with a longest duration; it ends by itself. The share of time for solo runs is bounded by the
//! host's [`LeaseLimits`]; every host decides by the same [`LeaseBook`].

use serde::{Deserialize, Serialize};

use crate::{Class, Nanos, Refusal, Workload, WorkloadId};

/// A request about solo runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseRequest {
    /// Let this workload run alone.
    Begin(Lease),
    /// End this workload's solo run.
    End(WorkloadId),
}

/// One workload alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The workload that runs alone.
    pub solo: WorkloadId,
    /// Are its isolations lifted meanwhile (all CPUs, ways and frequencies)?
    pub lift_isolations: bool,
    /// Longest duration.
    pub at_most: Nanos,
}

impl Lease {
    /// Is this other workload paused during the solo run? Best-effort work is; a latency-critical one only if its
    /// owner opted in.
    #[must_use]
    pub fn pauses(&self, id: WorkloadId, workload: &Workload) -> bool {
        id != self.solo && (workload.class == Class::BestEffort || workload.pausable)
    }
}

/// Bounds on solo runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LeaseLimits {
    /// Longest duration of a lease.
    pub longest: Nanos,
    /// Share of the time that solo runs take at most, in thousandths.
    pub duty_per_mille: u32,
}

impl Default for LeaseLimits {
    /// Two seconds (snu2020 §3.4.1: "one or two seconds") and a twentieth of the time (our assumption).
    fn default() -> LeaseLimits {
        LeaseLimits { longest: Nanos::from_secs(2), duty_per_mille: 50 }
    }
}

/// The current lease, and the earliest time of the next one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeaseBook {
    limits: LeaseLimits,
    running: Option<(Lease, Nanos)>,
    next_at: Nanos,
}

impl LeaseBook {
    /// A book with these limits and no lease.
    #[must_use]
    pub fn new(limits: LeaseLimits) -> LeaseBook {
        LeaseBook { limits, running: None, next_at: Nanos::ZERO }
    }

    /// The current lease and its start.
    #[must_use]
    pub fn running(&self) -> Option<(Lease, Nanos)> {
        self.running
    }

    /// Latest end of the current lease.
    #[must_use]
    pub fn ends_at(&self) -> Option<Nanos> {
        self.running.map(|(lease, began)| began + lease.at_most)
    }

    /// Begins a lease, shortened to the longest duration.
    ///
    /// # Errors
    /// [`Refusal::DutyCycle`] while another runs or solo runs have used up their share of the time.
    pub fn begin(&mut self, lease: Lease, now: Nanos) -> Result<Lease, Refusal> {
        if let Some(end) = self.ends_at() {
            return Err(Refusal::DutyCycle(end.max(self.next_at)));
        }
        if now < self.next_at {
            return Err(Refusal::DutyCycle(self.next_at));
        }
        let lease = Lease { at_most: lease.at_most.min(self.limits.longest), ..lease };
        self.running = Some((lease, now));
        Ok(lease)
    }

    /// Ends the current lease, if any, and returns it. The pause until the next one is long enough that all solo runs
    /// together stay within their share.
    pub fn end(&mut self, now: Nanos) -> Option<Lease> {
        let (lease, began) = self.running.take()?;
        let used = now - began;
        let duty = u64::from(self.limits.duty_per_mille.clamp(1, 1000));
        self.next_at = now + Nanos(used.0.saturating_mul(1000 - duty) / duty);
        Some(lease)
    }

    /// Ends the current lease if its time is over, and returns it.
    pub fn expire(&mut self, now: Nanos) -> Option<Lease> {
        if self.ends_at()? <= now { self.end(now) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuCount;
    use proptest::prelude::*;

    fn lease(at_most: Nanos) -> Lease {
        Lease { solo: WorkloadId(0), lift_isolations: true, at_most }
    }

    proptest! {
        /// For any requests at any times, solo time up to the start of any lease stays within the share.
        #[test]
        fn solo_runs_stay_within_their_share(
            asks in proptest::collection::vec((1u64..3_000, 1u64..4_000, any::<bool>()), 1..60),
            duty in 1u32..=500,
        ) {
            let mut book = LeaseBook::new(LeaseLimits { longest: Nanos::from_secs(2), duty_per_mille: duty });
            let (mut now, mut solo) = (Nanos::ZERO, Nanos::ZERO);
            for (length, step, early) in asks {
                if book.begin(lease(Nanos::from_millis(length)), now).is_ok() {
                    prop_assert!(solo.0 as u128 * 1000 <= now.0 as u128 * u128::from(duty) + 1000);
                }
                let before = book.running();
                now += Nanos::from_millis(step);
                let ended = if early { book.end(now) } else { book.expire(now) };
                if let (Some(_), Some((_, began))) = (ended, before) {
                    solo += now - began;
                }
            }
        }
    }

    #[test]
    fn a_lease_ends_by_itself_and_is_never_longer_than_allowed() {
        let mut book = LeaseBook::new(LeaseLimits::default());
        let granted = book.begin(lease(Nanos::from_secs(60)), Nanos::ZERO).unwrap();
        assert_eq!(granted.at_most, Nanos::from_secs(2));
        assert!(book.begin(lease(Nanos(1)), Nanos(1)).is_err());
        assert!(book.expire(Nanos::from_millis(1999)).is_none());
        assert!(book.expire(Nanos::from_secs(2)).is_some());
        assert!(book.running().is_none());
    }

    #[test]
    fn latency_critical_work_is_paused_only_if_it_opted_in() {
        let lease = lease(Nanos(1));
        let mut other = Workload::new("b", Class::LatencyCritical, CpuCount::whole(1));
        assert!(!lease.pauses(WorkloadId(1), &other));
        other.pausable = true;
        assert!(lease.pauses(WorkloadId(1), &other));
        assert!(!lease.pauses(WorkloadId(0), &other));
    }
}
