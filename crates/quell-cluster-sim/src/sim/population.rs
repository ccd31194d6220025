//! Hosts and workloads that come and go.

use quell_model::cluster::{ClusterEvent, Contended, HostId, HostState};
use quell_model::{CpuCount, WorkloadId};
use quell_sim::Stream;

use super::Cluster;
use super::balance::Balances;
use super::clock::{Tick, seconds};
use super::machine::{self, Machine};
use super::work::{Work, workload};
use crate::scenario::Scenario;

const GIB: f64 = 1_073_741_824.0;

impl Cluster {
    /// The hosts.
    pub(super) fn build(&mut self, scenario: &Scenario) {
        for spec in &scenario.host {
            let Some(simulated) = spec.simulated() else { continue };
            self.grains.balances.push(Balances::new(simulated.socket()));
            for _ in 0..spec.count {
                self.hosts.push(Machine {
                    balances: self.grains.balances.len() - 1,
                    cores: f64::from(spec.cores),
                    claimable: (f64::from(spec.cores) * spec.overcommit * 1e3) as u32,
                    memory: (spec.memory_gib * GIB) as u64,
                    link: spec.link_gbit * 1e9 / 8.0,
                    state: HostState::Ready,
                    mark: Contended::Quiet,
                    workloads: Vec::new(),
                    claimed_cpus: 0,
                    claimed_memory: 0,
                    moves: 0,
                    copies: 0.0,
                    settled: self.clock.now(),
                });
                self.news.fresh.push(ClusterEvent::HostCame(machine::host(self.hosts.len() - 1)));
            }
        }
    }

    /// The first workloads, the next arrivals, and the failures.
    pub(super) fn populate(&mut self, scenario: &Scenario, seed: u64) {
        let kind = |name: &str| scenario.kind.iter().position(|kind| kind.name == name);
        self.groups = scenario.workloads.iter().filter_map(|group| Some((group.clone(), kind(&group.kind)?))).collect();
        for at in 0..self.groups.len() {
            let group = self.groups[at].0.clone();
            for number in 0..group.count as usize {
                let id = self.come(at);
                let given = group.hosts.get(number).map(|host| HostId(*host));
                match given.or_else(|| group.spread.then(|| self.any_host(id)).flatten()) {
                    Some(host) if self.room(host, id) => self.put(id, host),
                    _ => {}
                }
            }
            self.plan_arrival(at);
        }
        let mut fate = Stream::new(seed, 5);
        let end = seconds(self.end);
        for at in 0..self.hosts.len() {
            let (dies, silent) = (fate.unit() <= scenario.fails.hosts, fate.unit() <= scenario.fails.reports);
            let (death, silence) = (fate.unit() * end, fate.unit() * end);
            if dies {
                self.clock.after(death, Tick::Death(machine::host(at)));
            }
            if silent {
                self.clock.after(silence, Tick::Silence(machine::host(at)));
            }
        }
        self.stale.extend((0..self.hosts.len()).map(machine::host));
        self.rebalance();
    }

    /// A host on which it fits, at random: sixteen tries, then the first.
    fn any_host(&mut self, id: WorkloadId) -> Option<HostId> {
        let number = self.hosts.len() as u32;
        for _ in 0..16 {
            let host = HostId(self.draws.places.below(number));
            if self.room(host, id) {
                return Some(host);
            }
        }
        (0..self.hosts.len()).map(machine::host).find(|host| self.room(*host, id))
    }

    /// Is there room for it?
    pub(super) fn room(&self, host: HostId, id: WorkloadId) -> bool {
        let (machine, kind) = (&self.hosts[host.index()], self.kinds.of(&self.works[id.index()]));
        machine.state == HostState::Ready
            && machine.claimed_cpus + CpuCount::whole(kind.vcpus).0 <= machine.claimable
            && machine.claimed_memory + kind.memory <= machine.memory
    }

    /// Claims room for it on a host, or gives it back.
    pub(super) fn claim(&mut self, host: HostId, id: WorkloadId, comes: bool) {
        let kind = self.kinds.of(&self.works[id.index()]);
        let (cpus, memory) = (CpuCount::whole(kind.vcpus).0, kind.memory);
        self.news.changed.0.push(id);
        self.news.changed.1.push(host);
        let machine = &mut self.hosts[host.index()];
        if comes {
            (machine.claimed_cpus, machine.claimed_memory) =
                (machine.claimed_cpus + cpus, machine.claimed_memory + memory);
        } else {
            (machine.claimed_cpus, machine.claimed_memory) =
                (machine.claimed_cpus - cpus, machine.claimed_memory - memory);
        }
    }

    /// A waiting workload begins on a host.
    pub(super) fn put(&mut self, id: WorkloadId, host: HostId) {
        self.touch(host);
        self.claim(host, id, true);
        self.hosts[host.index()].add(id);
        let now = self.clock.now();
        let work = &mut self.works[id.index()];
        if let Some(since) = work.pending.take() {
            let waited = seconds(now) - seconds(since);
            work.wait(&self.kinds, waited);
        }
        work.host = Some(host);
    }

    /// A workload comes and waits for a place.
    fn come(&mut self, group: usize) -> WorkloadId {
        let kind = self.groups[group].1;
        let id = self.free.pop().unwrap_or_else(|| workload(self.works.len()));
        let life = self.works.get(id.index()).map_or(0, |before| before.life + 1);
        let mut work = Work::new(kind, life);
        work.pending = Some(self.clock.now());
        match self.works.get_mut(id.index()) {
            Some(place) => *place = work,
            None => self.works.push(work),
        }
        self.news.changed.0.push(id);
        self.count.came += 1;
        if let Some(stays) = self.groups[group].0.stays {
            let stays = self.draws.stays.exponential(seconds(stays));
            self.clock.after(stays, Tick::Departure(id, life));
        }
        // Workloads of a kind are not in step: each begins somewhere in its first phase.
        let first = self.kinds.all[kind].phases[0].1;
        if first > 0.0 {
            let part = self.draws.stays.unit();
            self.clock.after(first * part, Tick::Phase(id, life));
        }
        self.news.fresh.push(ClusterEvent::Wants(id));
        id
    }

    fn plan_arrival(&mut self, group: usize) {
        if let Some(every) = self.groups[group].0.every {
            let next = self.draws.arrivals.exponential(seconds(every));
            self.clock.after(next, Tick::Arrival(group as u32));
        }
    }

    pub(super) fn arrival(&mut self, group: u32) {
        self.come(group as usize);
        self.plan_arrival(group as usize);
    }

    pub(super) fn departure(&mut self, id: WorkloadId, life: u32) {
        if !self.lives(id, life) {
            return;
        }
        if self.traffic.moves.contains_key(&id) {
            self.end_move(id, quell_model::cluster::MoveEnd::Lost);
        }
        let now = self.clock.now();
        self.traffic.book.forget(now, id);
        if let Some(host) = self.works[id.index()].host {
            self.touch(host);
            self.claim(host, id, false);
            self.hosts[host.index()].remove(id);
        }
        let work = &mut self.works[id.index()];
        if let Some(since) = work.pending.take() {
            work.wait(&self.kinds, seconds(now) - seconds(since));
        }
        (work.present, work.host) = (false, None);
        self.news.changed.0.push(id);
        let work = work.clone();
        self.count.add(&self.kinds, &work);
        self.count.ended += 1;
        self.free.push(id);
        self.news.fresh.push(ClusterEvent::Ended(id));
    }

    pub(super) fn phase(&mut self, id: WorkloadId, life: u32) {
        if !self.lives(id, life) {
            return;
        }
        if let Some(host) = self.works[id.index()].host {
            self.touch(host);
        }
        let work = &mut self.works[id.index()];
        let phases = &self.kinds.all[work.kind].phases;
        work.phase = (work.phase + 1) % phases.len();
        let lasts = phases[work.phase].1;
        if lasts > 0.0 {
            self.clock.after(lasts, Tick::Phase(id, life));
        }
    }

    pub(super) fn death(&mut self, host: HostId) {
        if self.hosts[host.index()].state == HostState::Gone {
            return;
        }
        self.touch(host);
        let moving: Vec<WorkloadId> = self
            .traffic
            .moves
            .iter()
            .filter(|(_, moving)| moving.from == host || moving.to == host)
            .map(|(id, _)| *id)
            .collect();
        for id in moving {
            let lost = self.works[id.index()].host == Some(host);
            let how = if lost { quell_model::cluster::MoveEnd::Lost } else { quell_model::cluster::MoveEnd::Failed };
            self.end_move(id, how);
        }
        let now = self.clock.now();
        let machine = &mut self.hosts[host.index()];
        machine.state = HostState::Gone;
        (machine.claimed_cpus, machine.claimed_memory) = (0, 0);
        let lost = std::mem::take(&mut machine.workloads);
        self.count.died += 1;
        self.news.changed.1.push(host);
        self.news.changed.0.extend(&lost);
        self.news.fresh.push(ClusterEvent::HostWent(host));
        for id in lost {
            let work = &mut self.works[id.index()];
            (work.host, work.pending, work.backlog) = (None, Some(now), 0.0);
            self.news.fresh.push(ClusterEvent::Wants(id));
        }
    }

    pub(super) fn silence(&mut self, host: HostId) {
        if self.hosts[host.index()].state == HostState::Ready {
            self.hosts[host.index()].state = HostState::Unreachable;
            self.news.changed.0.extend(&self.hosts[host.index()].workloads);
            self.news.changed.1.push(host);
            self.news.fresh.push(ClusterEvent::HostChanged(host));
        }
    }

    fn lives(&self, id: WorkloadId, life: u32) -> bool {
        self.works.get(id.index()).is_some_and(|work| work.present && work.life == life)
    }
}
