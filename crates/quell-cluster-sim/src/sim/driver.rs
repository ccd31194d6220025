//! The cluster as a host of its domain: it is observed, and obeys.

use std::convert::Infallible;

use quell_model::cluster::{
    ClusterCapabilities, ClusterDomain, ClusterEvent, ClusterOutcome, ClusterPart, ClusterPlan, ClusterRefusal,
    ClusterVerdict, ClusterView, Contended, HostId, HostState, Movable, MoveEnd,
};
use quell_model::{BytesPerSecond, CpuCount, Host, Quality, Sample, Wake, WorkloadId};

use super::clock::{nanos, seconds};
use super::machine;
use super::work::{Sums, workload};
use super::{Cluster, WINDOW};
use quell_cluster::predict::{Predicted, Window};

/// A prediction whose fit is off by more than this part (root of the mean square) is not usable.
const WORST_FIT: f64 = 0.5;

impl Host<ClusterDomain> for Cluster {
    type Error = Infallible;

    fn capabilities(&self) -> ClusterCapabilities {
        ClusterCapabilities { live: true, cancel: true }
    }

    fn observe(&mut self, (): (), view: &mut ClusterView, events: &mut Vec<ClusterEvent>) -> Result<(), Infallible> {
        view.now = self.clock.now();
        let is_new = view.hosts.is_empty();
        let is_report = is_new || self.news.reported.is_none_or(|last| view.now >= last + WINDOW);
        view.hosts.resize(self.hosts.len());
        view.workloads.resize(self.works.len());
        let (mut works, mut hosts) = std::mem::take(&mut self.news.changed);
        if is_new {
            works.extend((0..self.works.len()).map(workload));
            hosts.extend(self.host_ids());
        }
        works.drain(..).for_each(|id| self.show_workload(id.index(), view));
        hosts.drain(..).for_each(|id| self.show_host(id.index(), view));
        self.news.changed = (works, hosts);
        if is_report {
            self.settle_all();
            self.report(view);
            self.news.reported = Some(view.now);
        }
        events.append(&mut self.news.fresh);
        Ok(())
    }

    fn apply(&mut self, plan: &ClusterPlan, events: &mut Vec<ClusterEvent>) -> Result<(), Infallible> {
        let mut report = |part: fn(u32) -> ClusterPart, at: usize, verdict| {
            events.push(ClusterEvent::Outcome(ClusterOutcome { plan: plan.number, part: part(at as u32), verdict }));
        };
        for (at, command) in plan.cancels.iter().enumerate() {
            report(ClusterPart::Cancel, at, self.cancel(*command));
        }
        for (at, command) in plan.places.iter().enumerate() {
            report(ClusterPart::Place, at, self.place(command.workload, command.host));
        }
        for (at, command) in plan.moves.iter().enumerate() {
            let verdict = self.may_move(command.workload, command.to).map_or_else(
                |refused| refused,
                |from| {
                    self.begin_move(command.workload, from, command.to, command.deadline);
                    ClusterVerdict::Pending(command.deadline)
                },
            );
            self.count.refused += u32::from(matches!(verdict, ClusterVerdict::Refused(_)));
            report(ClusterPart::Move, at, verdict);
        }
        for (at, command) in plan.marks.iter().enumerate() {
            report(ClusterPart::Mark, at, self.mark(command.host, command.class));
        }
        self.rebalance();
        Ok(())
    }

    fn wait(&mut self, until: Wake) -> Result<(), Infallible> {
        match until {
            Wake::At(at) => self.run(at),
            Wake::OnEvent => self.run(self.end),
        }
        Ok(())
    }
}

impl Cluster {
    fn place(&mut self, id: WorkloadId, host: HostId) -> ClusterVerdict {
        let now = self.clock.now();
        match self.works.get(id.index()).filter(|work| work.present) {
            None => ClusterVerdict::Vanished,
            Some(_) if host.index() >= self.hosts.len() => ClusterVerdict::Vanished,
            Some(work) if work.pending.is_none() => ClusterVerdict::Refused(ClusterRefusal::NotNow),
            Some(_) if !self.room(host, id) => ClusterVerdict::Refused(ClusterRefusal::NoRoom(host)),
            Some(_) => {
                self.put(id, host);
                ClusterVerdict::Applied(now)
            }
        }
    }

    fn mark(&mut self, host: HostId, class: Contended) -> ClusterVerdict {
        let Some(machine) = self.hosts.get_mut(host.index()).filter(|machine| machine.state != HostState::Gone) else {
            return ClusterVerdict::Vanished;
        };
        machine.mark = class;
        self.news.changed.1.push(host);
        ClusterVerdict::Applied(self.clock.now())
    }

    fn cancel(&mut self, id: WorkloadId) -> ClusterVerdict {
        if self.traffic.moves.contains_key(&id) {
            self.end_move(id, MoveEnd::Cancelled);
            ClusterVerdict::Applied(self.clock.now())
        } else {
            ClusterVerdict::Vanished
        }
    }

    /// The source of a possible move; else the verdict.
    fn may_move(&self, id: WorkloadId, to: HostId) -> Result<HostId, ClusterVerdict> {
        let work = self.works.get(id.index()).filter(|work| work.present).ok_or(ClusterVerdict::Vanished)?;
        let refused = |why| ClusterVerdict::Refused(why);
        let from = work.host.ok_or_else(|| refused(ClusterRefusal::NotNow))?;
        if to.index() >= self.hosts.len() {
            return Err(ClusterVerdict::Vanished);
        }
        let is_fixed = self.kinds.of(work).movable == Movable::Never;
        if from == to || is_fixed || self.traffic.moves.contains_key(&id) {
            return Err(refused(ClusterRefusal::NotNow));
        }
        if !self.room(to, id) {
            return Err(refused(ClusterRefusal::NoRoom(to)));
        }
        let may = self.traffic.book.may(&self.traffic.budget, self.clock.now(), id, from, to);
        may.map_err(|spent| refused(ClusterRefusal::Budget(spent)))?;
        Ok(from)
    }

    fn show_host(&self, at: usize, view: &mut ClusterView) {
        let (machine, hosts) = (&self.hosts[at], &mut view.hosts);
        hosts.state[at] = machine.state;
        hosts.mark[at] = machine.mark;
        hosts.cores[at] = CpuCount((machine.cores * 1e3) as u32);
        hosts.cpus[at] = CpuCount(machine.claimable);
        hosts.memory[at] = machine.memory;
        hosts.link[at] = BytesPerSecond(machine.link);
        hosts.claimed_cpus[at] = CpuCount(machine.claimed_cpus);
        hosts.claimed_memory[at] = machine.claimed_memory;
        if machine.state != HostState::Ready {
            hosts.contention[at].quality = hosts.contention[at].quality.min(Quality::Stale);
            hosts.used_cpus[at].quality = hosts.used_cpus[at].quality.min(Quality::Stale);
        }
    }

    /// The reports of all hosts that report: means since the last ones.
    fn report(&mut self, view: &mut ClusterView) {
        for at in 0..self.hosts.len() {
            if self.hosts[at].state == HostState::Ready {
                self.report_host(at, view);
                for on in 0..self.hosts[at].workloads.len() {
                    let id = self.hosts[at].workloads[on];
                    self.report_workload(id.index(), view);
                    self.works[id.index()].sums = Sums::default();
                }
            }
        }
    }

    fn report_host(&self, at: usize, view: &mut ClusterView) {
        let (machine, hosts) = (&self.hosts[at], &mut view.hosts);
        let window = self.news.reported.map_or(0.0, |last| seconds(view.now) - seconds(last));
        let works = || machine.workloads.iter().map(|id| &self.works[id.index()]);
        let (mbf, cpu) = works().fold((0.0, 0.0), |(mbf, cpu), work| match window > 0.0 {
            true => (mbf + work.sums.mbf / window, cpu + work.sums.cpu / window),
            // At the beginning: what is, not what was.
            false => (mbf + work.pace.mbf * work.running, cpu + work.running),
        });
        let span = nanos(window);
        hosts.contention[at] = Sample::over(mbf, view.now, span);
        hosts.used_cpus[at] = Sample::over(cpu, view.now, span);
        hosts.reported[at] = view.now;
    }

    fn show_workload(&self, at: usize, view: &mut ClusterView) {
        let (work, shown) = (&self.works[at], &mut view.workloads);
        let id = workload(at);
        shown.present[at] = work.present;
        shown.host[at] = work.host;
        shown.pending_since[at] = work.pending;
        shown.moving_to[at] = self.traffic.moves.get(&id).map(|moving| moving.to);
        let kind = self.kinds.of(work);
        shown.class[at] = kind.class;
        shown.slo[at] = kind.slo;
        shown.cpus[at] = CpuCount::whole(kind.vcpus);
        shown.memory[at] = kind.memory;
        shown.dirty[at] = BytesPerSecond(kind.dirty);
        shown.movable[at] = kind.movable;
        shown.threshold[at] = kind.threshold;
        let reports = work.host.is_some_and(|host| self.hosts[host.index()].state == HostState::Ready);
        if !reports {
            let quality = if work.host.is_some() { Quality::Stale } else { Quality::Absent };
            shown.intensity[at].quality = shown.intensity[at].quality.min(quality);
            shown.softirqs[at].quality = shown.softirqs[at].quality.min(quality);
            shown.used_cpus[at].quality = shown.used_cpus[at].quality.min(quality);
            shown.latency[at].quality = shown.latency[at].quality.min(quality);
            shown.predicted[at].quality = shown.predicted[at].quality.min(quality);
        }
    }

    fn report_workload(&self, at: usize, view: &mut ClusterView) {
        let (work, now, shown) = (&self.works[at], view.now, &mut view.workloads);
        let kind = self.kinds.of(work);
        let Sums { time, mbf, irqs, cpu, latency } = work.sums;
        if time <= 0.0 {
            return;
        }
        let window = Window { mbfr: mbf / time, irq: irqs / time, cpu: cpu / time, wait: 0.0 };
        let span = nanos(time);
        shown.intensity[at] = Sample::over(window.mbfr, now, span);
        shown.used_cpus[at] = Sample::over(window.cpu, now, span);
        if kind.service.is_none() {
            return;
        }
        shown.softirqs[at] = Sample::over(window.irq, now, span);
        shown.latency[at] = Sample::over(nanos(latency / time), now, span);
        if let Some(model) = kind.model.filter(|model| model.error <= WORST_FIT) {
            let waits = match model.predict(&window) {
                Predicted::Waits(wait) => nanos(wait),
                Predicted::Saturated => nanos(f64::MAX),
            };
            let sample = Sample::over(waits, now, span);
            shown.predicted[at] = Sample { quality: Quality::Estimated, ..sample };
        }
    }

    /// Every host.
    fn host_ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts.len()).map(machine::host)
    }
}
