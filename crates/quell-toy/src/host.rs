//! The host: attaching workloads, looking at them, and the contract's [`Host`].

use std::convert::Infallible;
use std::sync::Arc;

use quell_model::rule::RuleKind;
use quell_model::{
    Capabilities, CpuId, CpuSet, Event, Host, KnobKind, LeaseBook, LeaseLimits, Nanos, Plan, Sample, SchedClass,
    Signal, SignalSet, SoloEnd, Support, ThreadId, Topology, View, Wake, Workload, WorkloadId,
};

use crate::granted::{GrantedCpu, Rules};
use crate::member::{Member, Settings, Thread};
use crate::shared::Claim;
use crate::{Faults, Machine, ToyWorkload};

/// A machine in virtual time.
#[derive(Clone, Debug)]
pub struct ToyHost {
    /// What goes wrong, and how often.
    pub faults: Faults,
    /// Measures nothing but who holds which CPU: every other signal is absent.
    pub blind: bool,
    pub(crate) machine: Machine,
    pub(crate) topology: Arc<Topology>,
    pub(crate) now: Nanos,
    pub(crate) online: CpuSet,
    pub(crate) members: Vec<Option<Member>>,
    pub(crate) cpus: Vec<GrantedCpu>,
    pub(crate) banned: CpuSet,
    pub(crate) rules: Rules,
    pub(crate) khz: Vec<u32>,
    /// How much of each CPU threads used in the last stretch of time.
    pub(crate) busy: Vec<f64>,
    /// CPUs' worth of running of each workload's threads in the last stretch of time.
    pub(crate) shares: Vec<f64>,
    /// The threads' places in the last stretch of time.
    pub(crate) claims: Vec<Claim>,
    pub(crate) leases: LeaseBook,
    /// Samples under way: when they are ready, of which CPUs.
    pub(crate) sampling: Vec<(Nanos, CpuSet)>,
    /// Grants under way.
    pub(crate) granting: Vec<(Nanos, CpuId, Option<WorkloadId>)>,
    /// The LLC misses of each CPU as of its last sample.
    pub(crate) sampled: Vec<Sample<u64>>,
    pub(crate) bus_since: Nanos,
    pub(crate) bus_bytes: f64,
    pub(crate) happened: Vec<Event>,
    pub(crate) knobs_set: u64,
    born: i32,
}

impl ToyHost {
    /// A machine without workloads.
    #[must_use]
    pub fn new(topology: impl Into<Arc<Topology>>, machine: Machine) -> ToyHost {
        let topology = topology.into();
        let columns = topology.columns();
        ToyHost {
            faults: Faults::seeded(0),
            blind: false,
            now: Nanos::ZERO,
            online: topology.all(),
            members: Vec::new(),
            cpus: vec![GrantedCpu::default(); columns],
            banned: CpuSet::EMPTY,
            rules: Rules::new(),
            khz: vec![machine.max_khz; columns],
            busy: vec![0.0; columns],
            shares: Vec::new(),
            claims: Vec::new(),
            leases: LeaseBook::new(LeaseLimits::default()),
            sampling: Vec::new(),
            granting: Vec::new(),
            sampled: vec![Sample::default(); columns],
            bus_since: Nanos::ZERO,
            bus_bytes: 0.0,
            happened: Vec::new(),
            knobs_set: 0,
            born: 0,
            machine,
            topology,
        }
    }

    /// An empty view of this machine, to begin a cycle with.
    #[must_use]
    pub fn view(&self) -> View {
        View::new(self.topology.clone())
    }

    /// Bounds solo runs by these limits.
    pub fn limit_leases(&mut self, limits: LeaseLimits) {
        self.leases = LeaseBook::new(limits);
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Adds a workload in the first free slot.
    pub fn attach(&mut self, load: ToyWorkload) -> WorkloadId {
        let slot = self.members.iter().position(Option::is_none).unwrap_or(self.members.len());
        let id = WorkloadId(slot as u32);
        let settings = Settings::untouched(self.online, &self.machine);
        let demands = load.threads.clone();
        let member = Some(Member::new(load, settings, self.now));
        if slot == self.members.len() {
            self.members.push(member)
        } else {
            self.members[slot] = member
        }
        self.happened.push(Event::Attached(id));
        for demand in demands {
            self.add_thread(id, demand);
        }
        id
    }

    /// Takes a workload away; its CPUs are nobody's and its rules are void.
    pub fn detach(&mut self, id: WorkloadId) {
        if self.member(id).is_none() {
            return;
        }
        for cpu in self.held(id).iter() {
            self.hand(cpu, None);
        }
        self.members[id.index()] = None;
        self.rules.retain(|&(_, workload, _), _| workload != Some(id));
        if self.leases.running().is_some_and(|(lease, _)| lease.solo == id) {
            self.end_lease(SoloEnd::Detached);
        }
        self.happened.push(Event::Detached(id));
    }

    /// A thread is born into a workload with the workload's class.
    pub fn add_thread(&mut self, id: WorkloadId, demand: f64) -> Option<ThreadId> {
        self.born += 1;
        let born = ThreadId { tid: self.born, start: self.now.0 };
        let member = self.members.get_mut(id.index())?.as_mut()?;
        member.threads.push(Thread {
            id: born,
            demand,
            class: member.settings.class,
            cpus: None,
            cpu: self.online.lowest().unwrap_or_default(),
            run_time: Nanos::ZERO,
            run_delay: Nanos::ZERO,
        });
        self.happened.push(Event::ThreadBorn(id, born));
        Some(born)
    }

    /// Changes what a workload's threads want, each this part (0–1) of a CPU.
    pub fn set_demand(&mut self, id: WorkloadId, demand: f64) {
        if let Some(member) = self.members.get_mut(id.index()).and_then(Option::as_mut) {
            member.threads.iter_mut().for_each(|thread| thread.demand = demand);
        }
    }

    /// Changes what a workload does; threads, queue and what was set stay.
    pub fn change(&mut self, id: WorkloadId, change: impl FnOnce(&mut ToyWorkload)) {
        let now = self.now;
        if let Some(member) = self.members.get_mut(id.index()).and_then(Option::as_mut) {
            change(&mut member.load);
            member.schedule_arrival(now);
        }
    }

    /// Requests arrive now.
    pub fn send(&mut self, id: WorkloadId, requests: usize) {
        for _ in 0..requests {
            self.arrive(id, self.now);
        }
    }

    /// A CPU goes offline or comes back. The last one stays.
    pub fn set_online(&mut self, cpu: CpuId, online: bool) {
        if self.topology.cpu(cpu).is_none() || self.online.contains(cpu) == online {
            return;
        }
        if online {
            self.online.insert(cpu);
            self.happened.push(Event::Online(cpu));
        } else if self.online.len() > 1 {
            self.hand(cpu, None);
            self.online.remove(cpu);
            self.happened.push(Event::Offline(cpu));
        }
    }

    /// CPUs that this workload holds.
    #[must_use]
    pub fn held(&self, id: WorkloadId) -> CpuSet {
        self.online.iter().filter(|cpu| self.cpus[cpu.index()].holder == Some(id)).collect()
    }

    /// The workload as its owner describes it, if it is attached.
    #[must_use]
    pub fn spec(&self, id: WorkloadId) -> Option<&Workload> {
        self.member(id).map(|member| &*member.spec)
    }

    /// The CPUs that this workload's threads may run on, as set.
    #[must_use]
    pub fn cpus_of(&self, id: WorkloadId) -> CpuSet {
        self.member(id).map_or(CpuSet::EMPTY, |member| member.settings.cpus)
    }

    /// The cache ways that it may fill, as set.
    #[must_use]
    pub fn ways_of(&self, id: WorkloadId) -> u32 {
        self.member(id).map_or(0, |member| member.settings.ways)
    }

    /// The scheduling class of each of its threads.
    pub fn classes(&self, id: WorkloadId) -> impl Iterator<Item = SchedClass> + '_ {
        self.member(id).into_iter().flat_map(|member| member.threads.iter().map(|thread| thread.class))
    }

    /// The highest frequency that is set for this CPU, kHz.
    #[must_use]
    pub fn max_khz(&self, cpu: CpuId) -> u32 {
        self.khz.get(cpu.index()).copied().unwrap_or(0)
    }

    /// CPU time that it has used.
    #[must_use]
    pub fn run_time(&self, id: WorkloadId) -> Nanos {
        self.member(id).map_or(Nanos::ZERO, Member::run_time)
    }

    /// Requests that it has completed, and the longest latency of one.
    #[must_use]
    pub fn completed(&self, id: WorkloadId) -> (u64, Nanos) {
        self.member(id).map_or((0, Nanos::ZERO), |member| (member.completed, member.worst_latency))
    }

    /// How long its oldest waiting request has waited.
    #[must_use]
    pub fn queueing_delay(&self, id: WorkloadId) -> Nanos {
        self.member(id).map_or(Nanos::ZERO, |member| member.queueing_delay(self.now))
    }

    /// Memory bandwidth in use at the moment, bytes per second.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        self.members.iter().flatten().map(|member| member.effect.bandwidth).sum()
    }

    /// CPUs that sibling bans park.
    #[must_use]
    pub fn banned(&self) -> CpuSet {
        self.banned
    }

    /// CPUs that are online.
    #[must_use]
    pub fn online(&self) -> CpuSet {
        self.online
    }

    /// How many knobs were set.
    #[must_use]
    pub fn knobs_set(&self) -> u64 {
        self.knobs_set
    }

    pub(crate) fn member(&self, id: WorkloadId) -> Option<&Member> {
        self.members.get(id.index())?.as_ref()
    }

    /// The slots in use.
    pub(crate) fn ids(&self) -> impl Iterator<Item = WorkloadId> + use<'_> {
        (0..self.members.len()).filter(|&slot| self.members[slot].is_some()).map(|slot| WorkloadId(slot as u32))
    }

    /// Is it paused, by a knob or by a lease?
    pub(crate) fn is_stopped(&self, id: WorkloadId) -> bool {
        let Some(member) = self.member(id) else { return true };
        let by_lease = self.leases.running().is_some_and(|(lease, _)| lease.pauses(id, &member.spec));
        member.settings.paused || by_lease
    }

    /// Are its isolations lifted for its solo run?
    pub(crate) fn is_lifted(&self, id: WorkloadId) -> bool {
        self.leases.running().is_some_and(|(lease, _)| lease.solo == id && lease.lift_isolations)
    }

    /// A CPU's frequency as part of its highest.
    pub(crate) fn frequency(&self, cpu: CpuId) -> f64 {
        let lifted = self.leases.running().is_some_and(|(lease, _)| lease.lift_isolations);
        let khz = if lifted { self.machine.max_khz } else { self.khz[cpu.index()] };
        f64::from(khz) / f64::from(self.machine.max_khz)
    }
}

impl Host for ToyHost {
    type Error = Infallible;

    fn capabilities(&self) -> Capabilities {
        let mut has = Capabilities { host: "toy".into(), grants: Support::Yes, ..Capabilities::default() };
        has.signals.extend(Signal::ALL.iter().map(|&signal| (signal, Support::Yes)));
        let why = "no client tells it".to_owned();
        has.signals.insert(Signal::Latency, Support::No { why, mend: "use the simulator".into() });
        let why = "it has no sockets".to_owned();
        has.signals.insert(Signal::UnreadDelay, Support::No { why, mend: "use a real machine".into() });
        for signal in [Signal::Preemptions, Signal::WakeUps] {
            let why = "its threads do not wake each other, and share CPUs evenly".to_owned();
            has.signals.insert(signal, Support::No { why, mend: "use a real machine".into() });
        }
        has.knobs.extend(KnobKind::ALL.iter().map(|&knob| (knob, Support::Yes)));
        for (knob, limit) in [
            (KnobKind::Quota, "is kept and has no effect"),
            (KnobKind::Partition, "is kept and has no effect"),
            (KnobKind::Preemption, "is kept and has no effect"),
        ] {
            has.knobs.insert(knob, Support::Partly(limit.into()));
        }
        for rule in [RuleKind::Guaranteed, RuleKind::Burst, RuleKind::Limit, RuleKind::Rank, RuleKind::SiblingBan] {
            has.rules.insert(rule, Support::Yes);
        }
        has.rules.insert(RuleKind::Server, Support::Partly("is kept and has no effect".into()));
        has
    }

    fn observe(&mut self, wanted: SignalSet, view: &mut View, events: &mut Vec<Event>) -> Result<(), Infallible> {
        let chance = self.faults.vanishing;
        if !self.members.is_empty() && self.faults.strikes(chance) {
            let slot = self.faults.pick(self.members.len());
            self.detach(WorkloadId(slot as u32));
        }
        self.fill(wanted, view);
        events.append(&mut self.happened);
        Ok(())
    }

    fn apply(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), Infallible> {
        self.obey(plan, events);
        Ok(())
    }

    fn wait(&mut self, until: Wake) -> Result<(), Infallible> {
        let until = match until {
            Wake::At(at) => at.max(self.now + self.machine.turn),
            Wake::OnEvent => self.now + self.machine.patience,
        };
        while self.now < until && self.happened.is_empty() {
            self.prepare();
            let next = self.next_happening().max(self.now + Nanos(1)).min(until);
            self.advance(next);
        }
        Ok(())
    }
}
