//! Carrying a plan out: knobs as a whole or not at all, then rules, then grants, samples and leases.

use quell_model::{
    Bounds, CpuSet, Event, GrantCommand, Knob, KnobSetting, LeaseRequest, Nanos, Outcome, Part, Plan, Refusal, Rule,
    SampleRequest, Signal, SoloEnd, Support, Target, ThreadId, Verdict, WorkloadId,
};

use super::{Member, SimHost, capabilities};
use crate::contention::MeasuredOfMemory;
use crate::kernel::{Partition, ServerSpec, TaskId};
use crate::sim::{quota, tighter};

/// What checking a setting found.
enum Check {
    Fine,
    Gone,
    Bad(Refusal),
}

impl SimHost {
    pub(super) fn obey(&mut self, plan: &Plan, events: &mut Vec<Event>) {
        self.charge(plan);
        let before = events.len();
        let mut report = |part, verdict| events.push(Event::Outcome(Outcome { plan: plan.number, part, verdict }));
        if !plan.knobs.is_empty() {
            report(Part::Knobs, self.turn_knobs(&plan.knobs));
        }
        for (at, rule) in plan.rules.iter().enumerate() {
            report(Part::Rule(at as u32), self.rule(*rule));
        }
        for (at, grant) in plan.grants.iter().enumerate() {
            report(Part::Grant(at as u32), self.grant(*grant));
        }
        if !plan.grants.is_empty() {
            self.charge_binding();
        }
        for (at, sample) in plan.samples.iter().enumerate() {
            report(Part::Sample(at as u32), self.take(sample));
        }
        for (at, lease) in plan.leases.iter().enumerate() {
            report(Part::Lease(at as u32), self.lease(*lease));
        }
        self.sim.settle();
        if let Some(mut watch) = self.watch.take() {
            watch.grants_changed(self);
            self.watch = Some(watch);
        }
        let is_refused = |event: &&Event| matches!(event, Event::Outcome(Outcome { verdict: Verdict::Refused(_), .. }));
        self.costs.refused += events[before..].iter().filter(is_refused).count() as u64;
    }

    /// Deciding and acting take time, in which the machine goes on.
    fn charge(&mut self, plan: &Plan) {
        let costs = self.sim.kernel.config.costs;
        let mut time = costs.decision.0 + costs.knob.0 * plan.knobs.len() as u64;
        if !plan.grants.is_empty() || !plan.rules.is_empty() {
            time += costs.grant.0 + costs.grant_each.0 * plan.grants.len() as u64;
        }
        self.costs.charged += Nanos(time);
        if !plan.is_idle() {
            self.costs.plans += 1;
            let lists =
                plan.knobs.len() + plan.grants.len() + plan.rules.len() + plan.samples.len() + plan.leases.len();
            self.costs.commands += lists as u64;
        }
        let until = self.sim.now() + Nanos(time);
        self.let_pass(until);
    }

    /// What was lent by affinity is made true, each binding at the cost of a knob.
    fn charge_binding(&mut self) {
        let bound = self.bind_lent();
        let time = Nanos(self.sim.kernel.config.costs.knob.0 * bound);
        self.costs.charged += time;
        let until = self.sim.now() + time;
        self.let_pass(until);
    }

    fn turn_knobs(&mut self, settings: &[KnobSetting]) -> Verdict {
        let mut gone = 0;
        for setting in settings {
            match self.check(setting) {
                Check::Fine => {}
                Check::Gone => gone += 1,
                Check::Bad(refusal) => return Verdict::Refused(refusal),
            }
        }
        if gone == settings.len() {
            return Verdict::Vanished;
        }
        settings.iter().for_each(|setting| self.turn_knob(setting));
        Verdict::Applied(self.sim.now())
    }

    fn check(&self, setting: &KnobSetting) -> Check {
        let bad = |why: &str| Check::Bad(Refusal::System(format!("{setting:?}: {why}")));
        let kernel = &self.sim.kernel;
        let exists = match setting.target {
            Target::Workload(id) => self.members.has(id),
            Target::Thread(id) => self.task(id).is_some(),
            Target::Cpu(cpu) => kernel.topology.cpu(cpu).is_some(),
            Target::Machine => true,
        };
        if !exists {
            return Check::Gone;
        }
        let kind = setting.knob.kind();
        let can = capabilities(self.lending(), self.sim.measured_of_memory());
        if let Support::No { why, .. } = can.can_set(kind, setting.target.kind()) {
            return Check::Bad(Refusal::Unsupported(format!("{}: {why}", kind.name())));
        }
        let machine = &self.sim.machine;
        let bounds = Bounds {
            online: kernel.online,
            cache_ways: machine.llc.ways,
            khz: machine.frequencies.min_khz..=machine.frequencies.max_khz,
        };
        setting.knob.check(&bounds).map_or_else(|error| bad(&error.to_string()), |()| Check::Fine)
    }

    pub(super) fn turn_knob(&mut self, setting: &KnobSetting) {
        match (setting.target, setting.knob) {
            (Target::Workload(id), knob) => self.turn_workload_knob(id, knob),
            (Target::Thread(id), knob) => {
                let Some(task) = self.task(id) else { return };
                let kernel = &mut self.sim.kernel;
                match knob {
                    Knob::Class(class) => kernel.set_class(task, class),
                    Knob::Cpus(cpus) => kernel.set_affinity(task, Some(cpus)),
                    Knob::Pause(paused) => kernel.set_stopped(task, paused),
                    _ => {}
                }
            }
            (Target::Cpu(cpu), Knob::MaxFrequencyKhz(khz)) => self.sim.set_frequency(cpu, khz),
            (Target::Machine, Knob::Preemption(mode)) => self.sim.kernel.config.preemption = mode,
            _ => {}
        }
    }

    fn turn_workload_knob(&mut self, id: WorkloadId, knob: Knob) {
        if let Knob::CacheWays(ways) = knob {
            return self.sim.set_cache_ways(id.index(), ways);
        }
        let Some(member) = self.members.get_mut(id) else { return };
        let (kernel, group) = (&mut self.sim.kernel, self.sim.tenants[id.index()].group);
        let tasks = &self.sim.tenants[id.index()].tasks;
        match knob {
            Knob::Cpus(cpus) => {
                member.cpus = Some(cpus);
                tasks.iter().for_each(|&task| kernel.set_affinity(task, None));
                self.place_workloads();
            }
            Knob::Partition(partition) => {
                member.partition = if partition { Partition::Root } else { Partition::Member };
                self.place_workloads();
            }
            Knob::Pause(paused) => {
                member.paused = paused;
                self.stop_workloads();
            }
            Knob::Weight(weight) => kernel.set_weight(group, weight),
            Knob::Quota(cpus) => kernel.set_quota(group, tighter(cpus, member.spec.limit).map(quota)),
            Knob::IdleOnly(idle) => kernel.set_idle(group, idle),
            Knob::Class(class) => tasks.iter().for_each(|&task| kernel.set_class(task, class)),
            Knob::CacheWays(_) | Knob::MaxFrequencyKhz(_) | Knob::Preemption(_) => {}
        }
    }

    /// Gives every workload its CPUs: those that were set, or all, without those of others' partitions; all CPUs to
    /// one that runs alone with its isolations lifted.
    pub(super) fn place_workloads(&mut self) {
        let lifted = self.leases.running().filter(|(lease, _)| lease.lift_isolations).map(|(lease, _)| lease.solo);
        self.sim.lift_limits(lifted.map(WorkloadId::index));
        for (id, member) in self.members.each() {
            let is_partition = |member: &Member| member.partition != Partition::Member;
            let others = self.members.each().filter(|&(other, member)| other != id && is_partition(member));
            let taken = others.fold(CpuSet::EMPTY, |taken, (_, other)| taken.union(&other.cpus.unwrap_or_default()));
            let cpus = match member.cpus {
                _ if lifted == Some(id) => None,
                None if taken.is_empty() => None,
                wanted => Some(wanted.unwrap_or(self.sim.kernel.online).difference(&taken)),
            };
            let group = self.sim.tenants[id.index()].group;
            // While one runs alone, no CPUs are another's own.
            let partition = if lifted.is_some() { Partition::Member } else { member.partition };
            self.sim.kernel.set_cpus(group, cpus);
            self.sim.kernel.set_partition(group, partition);
        }
    }

    /// Stops whom a knob or a lease pauses, and lets the others run.
    pub(super) fn stop_workloads(&mut self) {
        for (id, member) in self.members.each() {
            let by_lease = self.leases.running().is_some_and(|(lease, _)| lease.pauses(id, &member.spec));
            for &task in &self.sim.tenants[id.index()].tasks {
                self.sim.kernel.set_stopped(task, member.paused || by_lease);
            }
        }
    }

    fn rule(&mut self, rule: Rule) -> Verdict {
        if let Some(Support::No { why, .. }) =
            capabilities(self.lending(), self.sim.measured_of_memory()).rules.get(&rule.kind())
        {
            return Verdict::Refused(Refusal::Unsupported(format!("{}: {why}", rule.kind().name())));
        }
        if matches!(rule.key(), (_, Some(id), _) if !self.members.has(id)) {
            return Verdict::Vanished;
        }
        let kernel = &mut self.sim.kernel;
        match rule {
            Rule::Server { cpu, .. } if kernel.topology.cpu(cpu).is_none() => return Verdict::Vanished,
            Rule::Server { workload, cpu, budget, period, priority } => {
                let in_turns = self.members.get(workload).is_some_and(|member| !member.spec.is_lc());
                kernel.set_server(workload.0, cpu, ServerSpec { budget, period, priority, in_turns });
            }
            rule => kernel.enact(rule),
        }
        Verdict::Applied(self.sim.now())
    }

    fn grant(&mut self, command: GrantCommand) -> Verdict {
        let kernel = &mut self.sim.kernel;
        let (cpu, to) = match command {
            GrantCommand::Grant(cpu, to) => (cpu, Some(to)),
            GrantCommand::Revoke(cpu) => (cpu, None),
        };
        if !kernel.grants.is_on {
            return self.lend(command);
        }
        if !kernel.online.contains(cpu) {
            return Verdict::Refused(Refusal::System(format!("CPU {cpu} is offline")));
        }
        match to {
            Some(id) if !self.members.has(id) => return Verdict::Vanished,
            Some(_) if kernel.grants.banned.contains(cpu) => {
                return Verdict::Refused(Refusal::System(format!("CPU {cpu} is parked by a sibling ban")));
            }
            _ => {}
        }
        kernel.hand(cpu, to);
        if let Some(id) = to {
            self.sim.granted(id.index(), cpu);
        }
        Verdict::Applied(self.sim.now())
    }

    fn take(&mut self, request: &SampleRequest) -> Verdict {
        if self.sim.measured_of_memory() != MeasuredOfMemory::Everything {
            let why = "no workload of this scenario has a profile, contention is off, or there are no counters".into();
            return Verdict::Refused(Refusal::Unsupported(why));
        }
        if request.signals.contains(Signal::LlcMisses) {
            self.sample(request.cpus);
        }
        Verdict::Applied(self.sim.now())
    }

    fn lease(&mut self, request: LeaseRequest) -> Verdict {
        let now = self.sim.now();
        match request {
            LeaseRequest::Begin(lease) if !self.members.has(lease.solo) => Verdict::Vanished,
            LeaseRequest::Begin(lease) => match self.leases.begin(lease, now) {
                Ok(lease) => {
                    self.place_workloads();
                    self.stop_workloads();
                    self.happened.push(Event::SoloBegan(lease.solo));
                    Verdict::Applied(now)
                }
                Err(refusal) => Verdict::Refused(refusal),
            },
            LeaseRequest::End(solo) if self.leases.running().is_some_and(|(lease, _)| lease.solo == solo) => {
                self.end_lease(SoloEnd::Released);
                Verdict::Applied(now)
            }
            LeaseRequest::End(_) => Verdict::Vanished,
        }
    }

    pub(super) fn end_lease(&mut self, why: SoloEnd) {
        if let Some(lease) = self.leases.end(self.sim.now()) {
            self.place_workloads();
            self.stop_workloads();
            self.sim.settle();
            self.happened.push(Event::SoloEnded(lease.solo, why));
        }
    }

    fn task(&self, id: ThreadId) -> Option<TaskId> {
        let number = u32::try_from(id.tid.checked_sub(1)?).ok()?;
        let is_there = self.sim.kernel.tasks.get(number as usize).is_some_and(|task| !task.ended);
        (is_there && id.start == 0).then_some(TaskId(number))
    }
}
