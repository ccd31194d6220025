//! `sdc-global`: the global scheduler of Software-Defined Compute (snu2020 §5.4.2, Algorithm 5.1).
//!
//! ```text
//! /* Global scheduler is invoked every 30 seconds */
//! for each host: for each lsvm in it:
//!     p = predicted_lsvm_latency(collected_stats)
//!     if p > SLO_threshold:
//!         h = lowest_cont_host(collected_stats)
//!         if h is not current host:   target_vm = lsvm;                  dest = h
//!         elif h is current host:     target_vm = high_cont_nlsvm(...);  dest = other_lowest_cont_host(h)
//!         live_migration(target_vm, dest)
//! ```
//!
//! The listing has its line 23, the migration, outside the `if`: then a host without a violation would repeat the last
//! migration. It is read as inside. The text (L1097) excludes the source host from the search for `h`; then the `elif` is
//! never taken. As published is the listing.
//!
//! The default adds, each a parameter: decisions count in the round's own view, a host takes few workloads a round, the
//! destination must be better by a margin, moves are judged (`verify`), and the trigger may be the measured latency.

use quell_model::cluster::{
    ClusterDescription, ClusterDomain, ClusterEvent, ClusterPart, ClusterPlan, ClusterVerdict, ClusterView, HostId,
    Measure, Movable, MoveCommand, MoveEnd, PlaceCommand,
};
use quell_model::{Nanos, Policy, Wake, WorkloadId};
use serde::{Deserialize, Serialize};

use super::config::{ALONE, BESIDE, DESCRIPTION, PUBLISHED, SdcConfig, TAINTS, Trigger};
use super::kit::{self, Round};
use super::mark::Marker;
use super::verify::{Judged, Verify};

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SdcGlobal {
    config: SdcConfig,
    /// Time of the next round.
    next: Nanos,
    verify: Verify,
    #[serde(default)]
    marker: Marker,
    /// The moves of the last plan, for its outcomes.
    ordered: Vec<WorkloadId>,
    #[serde(skip)]
    round: Round,
    #[serde(skip)]
    pending: Vec<WorkloadId>,
}

impl SdcGlobal {
    /// The policy.
    #[must_use]
    pub fn new(config: SdcConfig) -> SdcGlobal {
        SdcGlobal {
            config,
            next: Nanos::ZERO,
            verify: Verify::default(),
            marker: Marker::default(),
            ordered: Vec::new(),
            round: Round::default(),
            pending: Vec::new(),
        }
    }

    /// The judged moves.
    #[must_use]
    pub fn judged(&self) -> &[Judged] {
        self.verify.judged()
    }

    /// Takes in outcomes and ends of moves.
    fn handle(&mut self, now: Nanos, events: &[ClusterEvent]) {
        for event in events {
            match event {
                ClusterEvent::Ended(id) => self.verify.forget(*id),
                ClusterEvent::MoveEnded(id, MoveEnd::Arrived(_)) => {
                    self.verify.arrived(now, self.config.interval, *id);
                }
                ClusterEvent::MoveEnded(id, _) => self.verify.failed(*id),
                ClusterEvent::Outcome(outcome) => {
                    let ClusterPart::Move(at) = outcome.part else { continue };
                    let refused = matches!(outcome.verdict, ClusterVerdict::Refused(_) | ClusterVerdict::Vanished);
                    if let Some(id) = self.ordered.get(at as usize).filter(|_| refused) {
                        self.verify.failed(*id);
                    }
                }
                _ => {}
            }
        }
    }

    /// Waiting workloads go to the host with the lowest memory intensity on which they fit (§5.5.2, global placement).
    fn place(&mut self, view: &ClusterView, plan: &mut ClusterPlan) {
        for &workload in &self.pending {
            if let Some((host, _)) = lowest_cont_host(
                &self.round,
                view,
                workload,
                None,
                &Bounds { services: self.config.services, a_round: u32::MAX },
            ) {
                self.round.arrives(view, host, workload);
                plan.places.push(PlaceCommand { workload, host });
            }
        }
    }

    /// `predicted_lsvm_latency(collected_stats) > SLO_threshold`.
    fn violates(&self, view: &ClusterView, lsvm: WorkloadId) -> bool {
        let (workloads, at) = (&view.workloads, lsvm.index());
        if self.config.trigger == Trigger::Latency
            && let (Some(latency), Some(slo)) = (workloads.latency[at].usable(), workloads.slo[at])
        {
            return latency > slo.bound;
        }
        match (workloads.predicted[at].usable(), workloads.threshold[at]) {
            (Some(predicted), Some(threshold)) => predicted > threshold,
            _ => false,
        }
    }

    /// The migration procedure of one service: lines 8 to 23.
    fn migrate(&mut self, view: &ClusterView, current: HostId, lsvm: WorkloadId, plan: &mut ClusterPlan) {
        let bounds = Bounds { services: self.config.services, a_round: self.config.a_round };
        let first = if self.config.others_first { self.other(view, current, &bounds) } else { None };
        let first = first.filter(|(other, to, by)| {
            view.intensity(*other, *by) > Some(0.0) && self.is_worth(view, *other, current, *to, *by)
        });
        let chosen = first.or_else(|| match lowest_cont_host(&self.round, view, lsvm, Some(current), &bounds) {
            // Lines 9 to 14. The present host is a choice, too: it has the lowest intensity where no other has a lower.
            Some((h, by))
                if self.round.contention(h, by) < self.round.contention(current, by) && may_move(view, lsvm) =>
            {
                Some((lsvm, h, by))
            }
            _ if !self.config.others || self.config.others_first => None,
            // Lines 15 to 22.
            _ => self.other(view, current, &bounds),
        });
        let Some((target_vm, dest, by)) = chosen else { return };
        if !self.config.as_published && !self.is_worth(view, target_vm, current, dest, by) {
            return;
        }
        if !self.config.as_published {
            self.round.leaves(view, current, target_vm);
            self.round.arrives(view, dest, target_vm);
        }
        if self.config.verify {
            self.verify.began(view, lsvm, target_vm, current, dest);
        }
        plan.moves.push(MoveCommand {
            workload: target_vm,
            to: dest,
            deadline: view.now + self.config.deadline,
            relieves: Some(lsvm),
        });
    }

    /// The host's most intensive workload that is no service, and its best destination.
    fn other(&self, view: &ClusterView, current: HostId, bounds: &Bounds) -> Option<(WorkloadId, HostId, Measure)> {
        let other = high_cont_nlsvm(&self.round, view, current)?;
        let (dest, by) = lowest_cont_host(&self.round, view, other, Some(current), bounds)?;
        Some((other, dest, by))
    }

    /// Is the destination, the newcomer included, better by the margin, and has this round taken no other from the source?
    fn is_worth(&self, view: &ClusterView, moved: WorkloadId, from: HostId, to: HostId, by: Measure) -> bool {
        let intensity = view.intensity(moved, by).unwrap_or(0.0);
        let after = self.round.contention(to, by) + intensity;
        after < self.round.contention(from, by) * (1.0 - self.config.margin)
            && self.round.departures(from) < self.config.a_round
    }
}

/// Bounds of a destination.
struct Bounds {
    /// Part of its cores that services use, the newcomer included.
    services: f64,
    /// Arrivals in a round.
    a_round: u32,
}

impl Bounds {
    fn allow(&self, round: &Round, view: &ClusterView, host: HostId, workload: WorkloadId) -> bool {
        let cores = f64::from(view.hosts.cores[host.index()].0) / 1e3;
        let is_service = view.workloads.class[workload.index()].is_lc();
        round.arrivals(host) < self.a_round
            && (!is_service || round.services_with(view, host, workload) <= self.services * cores)
    }
}

/// `lowest_cont_host`: the host with the lowest memory intensity on which the workload fits, apart from one, and from those
/// that would exceed the bounds. Of several measures the best that one of them has in common with that one decides: hosts
/// without it are no choice. One without any report is the last choice.
fn lowest_cont_host(
    round: &Round,
    view: &ClusterView,
    workload: WorkloadId,
    but: Option<HostId>,
    bounds: &Bounds,
) -> Option<(HostId, Measure)> {
    let measure = |host| but.map_or(Some(Measure::Counters), |from| view.common(from, host));
    let choices = || {
        round.choices(view, workload).filter(|host| Some(*host) != but && bounds.allow(round, view, *host, workload))
    };
    let of_source = || but.and_then(|from| view.measure(from));
    let by = choices().filter_map(measure).min().or_else(of_source).unwrap_or_default();
    choices()
        .filter(|host| measure(*host).is_none_or(|its| its == by))
        .min_by(|a, b| round.contention(*a, by).total_cmp(&round.contention(*b, by)).then(a.cmp(b)))
        .map(|host| (host, by))
}

/// `high_cont_nlsvm`: the host's most memory-intensive workload that is not latency-sensitive and may move.
fn high_cont_nlsvm(round: &Round, view: &ClusterView, host: HostId) -> Option<WorkloadId> {
    let workloads = &view.workloads;
    let by = view.measure(host).unwrap_or_default();
    let intensity = |id: &WorkloadId| view.intensity(*id, by).unwrap_or(0.0);
    let others =
        round.on(host).iter().copied().filter(|id| !workloads.class[id.index()].is_lc() && may_move(view, *id));
    others.max_by(|a, b| intensity(a).total_cmp(&intensity(b)).then(b.cmp(a)))
}

fn may_move(view: &ClusterView, id: WorkloadId) -> bool {
    let at = id.index();
    view.workloads.movable[at] != Movable::Never && view.workloads.moving_to[at].is_none() && kit::decides(view, id)
}

impl Policy<ClusterDomain> for SdcGlobal {
    fn describe(&self) -> &'static ClusterDescription {
        match self.config {
            SdcConfig { as_published: true, others: true, .. } => &PUBLISHED,
            SdcConfig { as_published: true, others: false, .. } => &ALONE,
            SdcConfig { places: false, moves: false, .. } => &TAINTS,
            SdcConfig { places: false, .. } => &BESIDE,
            _ => &DESCRIPTION,
        }
    }

    fn step(&mut self, view: &ClusterView, events: &[ClusterEvent], plan: &mut ClusterPlan) -> Wake {
        self.handle(view.now, events);
        kit::make_room(&mut plan.places, view);
        kit::make_room(&mut plan.moves, view);
        kit::make_room(&mut self.ordered, view);
        let is_due = view.now >= self.next;
        kit::pending(view, &mut self.pending);
        if is_due || !self.pending.is_empty() && self.config.places {
            self.round.begin(view);
        }
        if self.config.places {
            self.place(view, plan);
        }
        if is_due {
            self.next = view.now + self.config.interval;
            if self.config.verify {
                for judged in self.verify.judge(view, self.config.margin, self.config.interval) {
                    if !judged.helped {
                        let text = format!(
                            "the move of workload {} to host {} did not help: {} before, {} after",
                            judged.moved.0, judged.to.0, judged.before, judged.after
                        );
                        plan.notes.push((Some(judged.victim), text));
                    }
                }
            }
            if self.config.marks {
                self.marker.mark(view, &mut plan.marks);
            }
            for at in 0..if self.config.moves { view.hosts.len() } else { 0 } {
                let host = HostId(at as u32);
                for on in 0..self.round.on(host).len() {
                    let lsvm = self.round.on(host)[on];
                    let is_ls = view.workloads.class[lsvm.index()].is_lc() && kit::decides(view, lsvm);
                    let is_free = view.workloads.moving_to[lsvm.index()].is_none();
                    let may = || !self.config.verify || self.verify.may(view.now, lsvm);
                    if is_ls && is_free && self.violates(view, lsvm) && may() {
                        self.migrate(view, host, lsvm, plan);
                    }
                }
            }
        }
        self.ordered.clear();
        self.ordered.extend(plan.moves.iter().map(|command| command.workload));
        Wake::At(self.next)
    }
}
