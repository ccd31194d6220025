//! Requests on granted CPUs: who holds which CPU, what it works on, which bans stand.

use std::collections::BTreeMap;

use quell_model::rule::{Occupancy, Standing, ban_holds, heir, on_wake_up};
use quell_model::{CpuId, CpuSet, Event, Nanos, Rule, RuleKind, WorkloadId};

use crate::ToyHost;
use crate::member::Waiting;

/// A request that a CPU works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub request: Waiting,
    pub started: Nanos,
}

/// One CPU as far as it is granted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GrantedCpu {
    pub holder: Option<WorkloadId>,
    pub running: Option<Running>,
    /// LLC misses since the start.
    pub misses: f64,
    /// Speed in the present stretch of time, in thousandths.
    pub speed: u64,
}

/// The standing rules, by [`Rule::key`].
pub(crate) type Rules = BTreeMap<(RuleKind, Option<WorkloadId>, Option<CpuId>), Rule>;

impl ToyHost {
    /// Hands a CPU to a workload, or to nobody; whatever ran there goes back to its queue.
    pub(crate) fn hand(&mut self, cpu: CpuId, to: Option<WorkloadId>) {
        self.put_back(cpu);
        self.cpus[cpu.index()].holder = to;
        if to.is_some() {
            self.work(cpu);
        }
    }

    /// The request on this CPU waits again.
    fn put_back(&mut self, cpu: CpuId) {
        let slot = &mut self.cpus[cpu.index()];
        if let (Some(running), Some(holder)) = (slot.running.take(), slot.holder)
            && let Some(member) = self.members[holder.index()].as_mut()
            && running.request.left != u64::MAX
        {
            member.queue.push_back(Waiting { since: self.now, ..running.request });
        }
        self.lift_bans();
    }

    /// The holder takes its next request; without one it yields the CPU.
    fn work(&mut self, cpu: CpuId) {
        let now = self.now;
        let Some(holder) = self.cpus[cpu.index()].holder else { return };
        if self.cpus[cpu.index()].running.is_some() || self.banned.contains(cpu) {
            return;
        }
        let next = self.members[holder.index()].as_mut().and_then(|member| member.next_request(now));
        match next {
            Some(request) => self.cpus[cpu.index()].running = Some(Running { request, started: now }),
            None => self.yield_cpu(cpu, holder),
        }
    }

    fn yield_cpu(&mut self, cpu: CpuId, holder: WorkloadId) {
        self.cpus[cpu.index()].holder = None;
        self.happened.push(Event::Yielded(cpu, holder));
        let waiting: Vec<WorkloadId> =
            self.ids().filter(|&id| id != holder && self.has_rule(RuleKind::Rank, id) && self.waits(id)).collect();
        let heir = self.with_occupancy(|now| heir(now, cpu, waiting.iter().copied()));
        if heir.is_some() {
            self.hand(cpu, heir);
        }
    }

    /// A request of this workload arrived.
    pub(crate) fn arrive(&mut self, id: WorkloadId, since: Nanos) {
        let Some(member) = self.members.get_mut(id.index()).and_then(Option::as_mut) else { return };
        let was_empty = member.queue.is_empty();
        let left = member.load.service.0.max(1) * 1000;
        member.queue.push_back(Waiting { arrived: since, since, left });
        if !was_empty {
            return;
        }
        self.happened.push(Event::QueueFormed(id));
        if (self.has_rule(RuleKind::Guaranteed, id) || self.has_rule(RuleKind::Burst, id))
            && let Some(cpu) = self.with_occupancy(|now| on_wake_up(now, id))
        {
            self.hand(cpu, Some(id));
        }
    }

    /// Sets the speed of every granted CPU for the stretch of time that begins.
    pub(crate) fn set_speeds(&mut self) {
        for cpu in self.topology.all().iter() {
            let slot = self.cpus[cpu.index()];
            let running = slot.holder.filter(|_| slot.running.is_some() && !self.banned.contains(cpu));
            let speed = running.map_or(0, |id| self.speed_of(id, cpu));
            self.cpus[cpu.index()].speed = speed;
        }
    }

    fn speed_of(&self, id: WorkloadId, cpu: CpuId) -> u64 {
        let Some(member) = self.members[id.index()].as_ref().filter(|_| !self.is_stopped(id)) else { return 0 };
        let sibling_busy = self
            .topology
            .siblings_of(cpu)
            .iter()
            .any(|other| self.cpus[other.index()].running.is_some() && !self.banned.contains(other));
        let shared = if sibling_busy { self.machine.sibling_speed_per_mille } else { 1000 };
        let speed = f64::from(shared) * self.frequency(cpu) * member.effect.speed;
        (speed as u64).max(1)
    }

    /// When the first running request ends at the present speeds.
    pub(crate) fn next_completion(&self) -> Option<Nanos> {
        let of = |slot: &GrantedCpu| {
            let left = slot.running?.request.left;
            (slot.speed > 0 && left != u64::MAX).then(|| self.now + Nanos(left.div_ceil(slot.speed)))
        };
        self.cpus.iter().filter_map(of).min()
    }

    /// The granted CPUs run for this span; the clock is still at its beginning.
    pub(crate) fn run_granted(&mut self, span: Nanos) {
        for slot in &mut self.cpus {
            if slot.speed == 0 {
                continue;
            }
            let Some(running) = &mut slot.running else { continue };
            if running.request.left != u64::MAX {
                running.request.left = running.request.left.saturating_sub(span.0 * slot.speed);
            }
            if let Some(member) = slot.holder.and_then(|id| self.members[id.index()].as_mut()) {
                member.granted_time += span;
                slot.misses += member.load.bandwidth.0 / 64.0 * span.as_secs_f64() * slot.speed as f64 / 1000.0;
            }
        }
    }

    /// Ends the requests that are done; their CPUs go on with the next ones.
    pub(crate) fn complete(&mut self) {
        for cpu in self.topology.all().iter() {
            let slot = &mut self.cpus[cpu.index()];
            if slot.running.is_none_or(|running| running.request.left > 0) {
                continue;
            }
            let arrived = slot.running.take().map_or(self.now, |running| running.request.arrived);
            if let Some(member) = slot.holder.and_then(|id| self.members[id.index()].as_mut()) {
                member.completed += 1;
                member.worst_latency = member.worst_latency.max(self.now - arrived);
            }
            self.work(cpu);
        }
        self.lift_bans();
    }

    /// Bans whose request ended are over; what is still banned is parked.
    pub(crate) fn lift_bans(&mut self) {
        let cpus = &self.cpus;
        self.rules.retain(|_, rule| match *rule {
            Rule::SiblingBan { cpu, request_start } => {
                let now_on = cpus.get(cpu.index()).and_then(|slot| slot.running).map(|running| running.started);
                ban_holds(request_start, now_on)
            }
            _ => true,
        });
        let before = self.banned;
        self.banned = CpuSet::EMPTY;
        for rule in self.rules.values() {
            if let Rule::SiblingBan { cpu, .. } = *rule {
                self.banned = self.banned.union(&self.topology.siblings_of(cpu));
            }
        }
        for cpu in self.banned.difference(&before).iter() {
            self.put_back(cpu);
        }
        for cpu in before.difference(&self.banned).iter() {
            self.work(cpu);
        }
    }

    fn waits(&self, id: WorkloadId) -> bool {
        self.members[id.index()].as_ref().is_some_and(|member| member.queueing_delay(self.now) > Nanos::ZERO)
    }

    fn has_rule(&self, kind: RuleKind, id: WorkloadId) -> bool {
        self.rules.contains_key(&(kind, Some(id), None))
    }

    fn with_occupancy<T>(&self, decide: impl FnOnce(&Occupancy<'_>) -> T) -> T {
        let holder: Vec<Option<WorkloadId>> = self.cpus.iter().map(|slot| slot.holder).collect();
        let standing: Vec<Standing> = (0..self.members.len()).map(|slot| self.standing(slot)).collect();
        let (pool, banned, topology) = (self.online, self.banned, &*self.topology);
        decide(&Occupancy { pool, banned, holder: &holder, standing: &standing, topology })
    }

    fn standing(&self, slot: usize) -> Standing {
        let id = WorkloadId(slot as u32);
        let lc = self.members[slot].as_ref().is_some_and(|member| member.spec.is_lc());
        let mut standing = Standing { lc, ..Standing::default() };
        for kind in [RuleKind::Guaranteed, RuleKind::Burst, RuleKind::Limit, RuleKind::Rank] {
            match self.rules.get(&(kind, Some(id), None)) {
                Some(&Rule::Guaranteed { cpus, .. }) => standing.guaranteed = cpus,
                Some(&Rule::Burst { cpus, .. }) => standing.burst = cpus,
                Some(&Rule::Limit { cpus, .. }) => standing.limit = cpus,
                Some(&Rule::Rank { rank, .. }) => standing.rank = rank,
                _ => {}
            }
        }
        standing
    }
}
