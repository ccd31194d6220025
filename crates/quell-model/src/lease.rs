//! Solo runs: a workload runs alone for a while so that it can be profiled.
//!
//! A solo run is a lease with a longest duration; it ends by itself. The share of time for solo runs is bounded by the
//! host's [`LeaseLimits`]; every host decides by the same [`LeaseBook`].

use serde::{Deserialize, Serialize};

use crate::{Class, CpuId, CpuSet, Nanos, Refusal, Workload, WorkloadId};

/// A request about solo runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(clippy::large_enum_variant, reason = "a plan has one or two of them, and is reused")]
pub enum LeaseRequest {
    /// Let this workload run alone.
    Begin(Lease),
    /// End this workload's solo run.
    End(WorkloadId),
    /// The rest of one workload's solo run is another's: nothing else goes on in between.
    Pass {
        /// The workload that ran alone until now.
        from: WorkloadId,
        /// The one that does for the rest of the time.
        to: WorkloadId,
    },
}

/// One workload alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The workload that runs alone.
    pub solo: WorkloadId,
    /// Are its isolations lifted meanwhile? Its CPUs, partition, quota, ways and throttle, and the frequencies of the
    /// CPUs within, are what they were before the policy. (Memory stays where it is: moving it takes longer than a solo run.)
    pub lift_isolations: bool,
    /// The CPUs on which it is alone, such as those of its socket; None: the whole machine. Work elsewhere goes on, and
    /// leases with no CPU in common run at the same time.
    #[serde(default)]
    pub within: Option<CpuSet>,
    /// Its CPUs meanwhile, if its isolations are lifted; None: what they were before the policy.
    #[serde(default)]
    pub on: Option<CpuSet>,
    /// The one workload that is paused meanwhile; None: all that [`Lease::pauses`] says.
    #[serde(default)]
    pub only: Option<WorkloadId>,
    /// Longest duration.
    pub at_most: Nanos,
}

impl Lease {
    /// This one workload is paused, so that it is seen how another one runs without it.
    #[must_use]
    pub fn pausing(paused: WorkloadId, beside: WorkloadId, at_most: Nanos) -> Lease {
        Lease { only: Some(paused), ..Lease::of(beside, false, at_most) }
    }

    /// On the whole machine.
    #[must_use]
    pub fn of(solo: WorkloadId, lift_isolations: bool, at_most: Nanos) -> Lease {
        Lease { solo, lift_isolations, within: None, on: None, only: None, at_most }
    }

    /// Is this other workload, which may run on `its` CPUs, paused during the solo run? Best-effort work is; a
    /// latency-critical one only if its owner opted in.
    #[must_use]
    pub fn pauses(&self, id: WorkloadId, workload: &Workload, its: &CpuSet) -> bool {
        let is_beside = self.within.is_none_or(|within| !within.is_disjoint(its));
        let is_meant = self.only.is_none_or(|only| only == id);
        id != self.solo && is_meant && is_beside && (workload.class == Class::BestEffort || workload.pausable)
    }

    /// Have the two leases a CPU in common?
    #[must_use]
    pub fn meets(&self, other: &Lease) -> bool {
        common(self.within, other.within)
    }

    /// Is the frequency of this CPU lifted?
    #[must_use]
    pub fn lifts_cpu(&self, cpu: CpuId) -> bool {
        self.lift_isolations && self.within.is_none_or(|within| within.contains(cpu))
    }
}

/// Have the two sets a CPU in common? None is the whole machine.
fn common(one: Option<CpuSet>, other: Option<CpuSet>) -> bool {
    one.zip(other).is_none_or(|(one, other)| !one.is_disjoint(&other))
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

/// The current leases, and the earliest time of the next ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeaseBook {
    limits: LeaseLimits,
    running: Vec<(Lease, Nanos)>,
    /// By the CPUs of leases that ended: no other on them before.
    next_at: Vec<(Option<CpuSet>, Nanos)>,
}

impl LeaseBook {
    /// A book with these limits and no lease.
    #[must_use]
    pub fn new(limits: LeaseLimits) -> LeaseBook {
        LeaseBook { limits, ..LeaseBook::default() }
    }

    /// The current leases, each with its start.
    #[must_use]
    pub fn running(&self) -> &[(Lease, Nanos)] {
        &self.running
    }

    /// The current leases.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.running.iter().map(|(lease, _)| lease)
    }

    /// The lease of this workload.
    #[must_use]
    pub fn of(&self, solo: WorkloadId) -> Option<Lease> {
        self.leases().find(|lease| lease.solo == solo).copied()
    }

    /// Latest end of the current lease that ends first.
    #[must_use]
    pub fn ends_at(&self) -> Option<Nanos> {
        self.running.iter().map(|(lease, began)| *began + lease.at_most).min()
    }

    /// Begins a lease, shortened to the longest duration.
    ///
    /// # Errors
    /// [`Refusal::DutyCycle`] while another runs on a CPU of it or solo runs there have used up their share of the time.
    pub fn begin(&mut self, lease: Lease, now: Nanos) -> Result<Lease, Refusal> {
        self.next_at.retain(|(_, at)| *at > now);
        let ahead = self.next_at.iter().filter(|(cpus, _)| common(*cpus, lease.within)).map(|(_, at)| *at).max();
        let meets = |(other, _): &&(Lease, Nanos)| other.meets(&lease) || other.solo == lease.solo;
        let ends = self.running.iter().filter(meets).map(|(other, began)| *began + other.at_most).max();
        if let Some(until) = ahead.into_iter().chain(ends).max() {
            return Err(Refusal::DutyCycle(until));
        }
        let lease = Lease { at_most: lease.at_most.min(self.limits.longest), ..lease };
        self.running.push((lease, now));
        Ok(lease)
    }

    /// Ends a workload's lease, if it has one, and returns it. The pause until the next one on its CPUs is long enough that
    /// all solo runs there stay within their share.
    pub fn end(&mut self, solo: WorkloadId, now: Nanos) -> Option<Lease> {
        let at = self.running.iter().position(|(lease, _)| lease.solo == solo)?;
        let (lease, began) = self.running.remove(at);
        let used = now - began;
        let duty = u64::from(self.limits.duty_per_mille.clamp(1, 1000));
        self.next_at.push((lease.within, now + Nanos(used.0.saturating_mul(1000 - duty) / duty)));
        Some(lease)
    }

    /// Passes the rest of a workload's lease on to another, and returns it with that rest as its longest duration; None: it has
    /// none.
    ///
    /// # Errors
    /// [`Refusal::DutyCycle`] if the other has a lease of its own, [`Refusal::Unsupported`] if this one pauses a single
    /// workload.
    pub fn pass(&mut self, from: WorkloadId, to: WorkloadId, now: Nanos) -> Result<Option<Lease>, Refusal> {
        let own = self.running.iter().find(|(lease, _)| lease.solo == to).map(|(lease, began)| *began + lease.at_most);
        let Some((lease, began)) = self.running.iter_mut().find(|(lease, _)| lease.solo == from) else {
            return Ok(None);
        };
        if lease.only.is_some() {
            return Err(Refusal::Unsupported("a pause of one workload cannot be passed on".into()));
        }
        if let Some(until) = own.filter(|_| from != to) {
            return Err(Refusal::DutyCycle(until));
        }
        (lease.solo, lease.on) = (to, None);
        Ok(Some(Lease { at_most: (*began + lease.at_most).max(now) - now, ..*lease }))
    }

    /// Ends a lease that is over, and returns it.
    pub fn expire(&mut self, now: Nanos) -> Option<Lease> {
        let (over, _) = self.running.iter().find(|(lease, began)| *began + lease.at_most <= now)?;
        self.end(over.solo, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuCount;
    use proptest::prelude::*;

    fn lease(at_most: Nanos) -> Lease {
        Lease::of(WorkloadId(0), true, at_most)
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
                let before = book.running().first().copied();
                now += Nanos::from_millis(step);
                let ended = if early { book.end(WorkloadId(0), now) } else { book.expire(now) };
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
        assert!(book.running().is_empty());
    }

    #[test]
    fn a_lease_passes_on_within_its_time() {
        let mut book = LeaseBook::new(LeaseLimits::default());
        let (one, two) = (WorkloadId(0), WorkloadId(1));
        assert_eq!(book.pass(one, two, Nanos(5)), Ok(None));
        book.begin(lease(Nanos(1000)), Nanos(10)).unwrap();
        let rest = book.pass(one, two, Nanos(410)).unwrap().unwrap();
        assert_eq!((rest.solo, rest.at_most), (two, Nanos(600)));
        assert_eq!((book.of(one), book.ends_at()), (None, Some(Nanos(1010))), "no later");
        assert_eq!(book.expire(Nanos(1010)).map(|lease| lease.solo), Some(two));
        assert_eq!(
            book.begin(lease(Nanos(1)), Nanos(1011)),
            Err(Refusal::DutyCycle(Nanos(1010 + 19_000))),
            "all of it counts"
        );
        let mut book = LeaseBook::new(LeaseLimits::default());
        book.begin(Lease::pausing(two, one, Nanos(9)), Nanos(0)).unwrap();
        assert!(matches!(book.pass(one, two, Nanos(1)), Err(Refusal::Unsupported(_))));
    }

    #[test]
    fn latency_critical_work_is_paused_only_if_it_opted_in() {
        let lease = lease(Nanos(1));
        let mut other = Workload::new("b", Class::LatencyCritical, CpuCount::whole(1));
        assert!(!lease.pauses(WorkloadId(1), &other, &CpuSet::first(4)));
        other.pausable = true;
        assert!(lease.pauses(WorkloadId(1), &other, &CpuSet::first(4)));
        assert!(!lease.pauses(WorkloadId(0), &other, &CpuSet::first(4)));
        let one = Lease::pausing(WorkloadId(2), WorkloadId(0), Nanos(1));
        let paused: Vec<u32> = (0..4).filter(|id| one.pauses(WorkloadId(*id), &other, &CpuSet::first(4))).collect();
        assert_eq!(paused, [2]);
    }

    #[test]
    fn sockets_fall_silent_one_by_one_or_at_once() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let on = |solo, cpus: &str| Lease { within: Some(set(cpus)), solo: WorkloadId(solo), ..lease(Nanos(100)) };
        let mut book = LeaseBook::new(LeaseLimits::default());
        assert!(book.begin(on(0, "0-3"), Nanos(0)).is_ok());
        assert!(book.begin(on(1, "4-7"), Nanos(10)).is_ok(), "another socket");
        assert_eq!(book.begin(on(2, "3-4"), Nanos(20)), Err(Refusal::DutyCycle(Nanos(110))), "of both");
        assert_eq!(book.ends_at(), Some(Nanos(100)));
        assert_eq!(book.expire(Nanos(100)).map(|lease| lease.solo), Some(WorkloadId(0)));
        assert_eq!(book.expire(Nanos(100)), None);
        assert!(book.begin(on(0, "0-3"), Nanos(101)).is_err(), "its share is used up there");
        assert!(book.begin(on(3, "8-9"), Nanos(101)).is_ok(), "and nowhere else");
        let best_effort = Workload::new("b", Class::BestEffort, CpuCount::ZERO);
        assert!(on(0, "0-3").pauses(WorkloadId(5), &best_effort, &set("2-5")));
        assert!(!on(0, "0-3").pauses(WorkloadId(5), &best_effort, &set("4-5")));
    }
}
