//! Carrying a plan out: knobs as a whole or not at all, then rules, then grants, samples and leases.

use quell_model::{
    Bounds, CpuId, Event, GrantCommand, Knob, KnobSetting, LeaseRequest, Nanos, Outcome, Part, Plan, Refusal, Rule,
    SoloEnd, Target, ThreadId, Verdict, WorkloadId,
};

use crate::ToyHost;

/// What checking a setting found.
enum Check {
    Fine,
    Gone,
    Bad(String),
}

impl ToyHost {
    pub(crate) fn obey(&mut self, plan: &Plan, events: &mut Vec<Event>) {
        let mut report = |part, verdict| events.push(Event::Outcome(Outcome { plan: plan.number, part, verdict }));
        if !plan.knobs.is_empty() {
            report(Part::Knobs, self.turn_knobs(&plan.knobs));
        }
        for (at, rule) in plan.rules.iter().enumerate() {
            report(Part::Rule(at as u32), self.enact(*rule));
        }
        for (at, grant) in plan.grants.iter().enumerate() {
            report(Part::Grant(at as u32), self.grant(*grant));
        }
        for (at, sample) in plan.samples.iter().enumerate() {
            let verdict = self.unless_refused(|host| {
                let ready = host.now + host.machine.sample_latency;
                host.sampling.push((ready, sample.cpus));
                Verdict::Pending(ready)
            });
            report(Part::Sample(at as u32), verdict);
        }
        for (at, lease) in plan.leases.iter().enumerate() {
            report(Part::Lease(at as u32), self.lease(*lease));
        }
    }

    fn unless_refused(&mut self, act: impl FnOnce(&mut ToyHost) -> Verdict) -> Verdict {
        let chance = self.faults.others_refused;
        if self.faults.strikes(chance) { refused("an injected failure".into()) } else { act(self) }
    }

    fn turn_knobs(&mut self, settings: &[KnobSetting]) -> Verdict {
        let chance = self.faults.knobs_refused;
        if self.faults.strikes(chance) {
            return refused("an injected failure".into());
        }
        let mut gone = 0;
        for setting in settings {
            if self.faults.without == Some(setting.knob.kind()) {
                return Verdict::Refused(Refusal::Unsupported(setting.knob.kind().name().into()));
            }
            match self.check(setting) {
                Check::Fine => {}
                Check::Gone => gone += 1,
                Check::Bad(why) => return refused(why),
            }
        }
        settings.iter().for_each(|setting| self.turn_knob(setting));
        if gone == settings.len() { Verdict::Vanished } else { Verdict::Applied(self.now) }
    }

    fn check(&self, setting: &KnobSetting) -> Check {
        let exists = match setting.target {
            Target::Workload(id) => self.member(id).is_some(),
            Target::Thread(id) => self.thread_place(id).is_some(),
            Target::Cpu(cpu) => self.topology.cpu(cpu).is_some(),
            Target::Machine => true,
        };
        if !exists {
            return Check::Gone;
        }
        let machine = &self.machine;
        let khz = machine.min_khz..=machine.max_khz;
        let bounds = Bounds { online: self.online, cache_ways: machine.cache_ways.clamp(1, 32), khz };
        setting.knob.check(&bounds).map_or_else(|error| Check::Bad(format!("{setting:?}: {error}")), |()| Check::Fine)
    }

    fn turn_knob(&mut self, setting: &KnobSetting) {
        match (setting.target, setting.knob) {
            (Target::Cpu(cpu), Knob::MaxFrequencyKhz(khz)) => {
                if let Some(slot) = self.khz.get_mut(cpu.index()) {
                    *slot = khz;
                }
            }
            (Target::Workload(id), knob) => self.turn_workload_knob(id, knob),
            (Target::Thread(id), knob) => self.turn_thread_knob(id, knob),
            _ => {}
        }
        self.knobs_set += 1;
    }

    fn turn_workload_knob(&mut self, id: WorkloadId, knob: Knob) {
        let Some(member) = self.members.get_mut(id.index()).and_then(Option::as_mut) else { return };
        match knob {
            Knob::Cpus(cpus) => {
                member.settings.cpus = cpus;
                member.threads.iter_mut().for_each(|thread| thread.cpus = None);
            }
            Knob::Weight(weight) => member.settings.weight = weight,
            Knob::Quota(quota) => member.settings.quota = quota,
            Knob::IdleOnly(idle) => member.settings.idle_only = idle,
            Knob::Class(class) => {
                member.settings.class = class;
                member.threads.iter_mut().for_each(|thread| thread.class = class);
            }
            Knob::Pause(paused) => member.settings.paused = paused,
            Knob::CacheWays(ways) => member.settings.ways = ways,
            Knob::MaxFrequencyKhz(_) | Knob::Partition(_) | Knob::Preemption(_) => {}
        }
    }

    fn turn_thread_knob(&mut self, id: ThreadId, knob: Knob) {
        let Some((member, thread)) = self.thread_place(id) else { return };
        let Some(member) = self.members[member].as_mut() else { return };
        match knob {
            Knob::Class(class) => member.threads[thread].class = class,
            Knob::Cpus(cpus) => member.threads[thread].cpus = Some(cpus),
            _ => {}
        }
    }

    fn thread_place(&self, id: ThreadId) -> Option<(usize, usize)> {
        self.ids().map(WorkloadId::index).find_map(|member| {
            let threads = &self.members[member].as_ref()?.threads;
            Some((member, threads.iter().position(|thread| thread.id == id)?))
        })
    }

    fn enact(&mut self, rule: Rule) -> Verdict {
        self.unless_refused(|host| {
            host.rules.insert(rule.key(), rule);
            host.lift_bans();
            Verdict::Applied(host.now)
        })
    }

    fn grant(&mut self, command: GrantCommand) -> Verdict {
        let chance = self.faults.grants_refused;
        if self.faults.strikes(chance) {
            return refused("an injected failure".into());
        }
        let (cpu, to) = match command {
            GrantCommand::Grant(cpu, to) => (cpu, Some(to)),
            GrantCommand::Revoke(cpu) => (cpu, None),
        };
        match self.grant_fault(cpu, to) {
            Some(verdict) => verdict,
            None if self.machine.grant_latency == Nanos::ZERO => {
                self.hand(cpu, to);
                Verdict::Applied(self.now)
            }
            None => {
                let at = self.now + self.machine.grant_latency;
                self.granting.push((at, cpu, to));
                Verdict::Pending(at)
            }
        }
    }

    /// Why a CPU cannot change hands, if so.
    pub(crate) fn grant_fault(&self, cpu: CpuId, to: Option<WorkloadId>) -> Option<Verdict> {
        if !self.online.contains(cpu) {
            return Some(refused(format!("CPU {cpu} is offline")));
        }
        let to = to?;
        if self.member(to).is_none() {
            return Some(Verdict::Vanished);
        }
        self.banned.contains(cpu).then(|| refused(format!("CPU {cpu} is parked by a sibling ban")))
    }

    fn lease(&mut self, request: LeaseRequest) -> Verdict {
        let chance = self.faults.others_refused;
        if self.faults.strikes(chance) {
            return refused("an injected failure".into());
        }
        match request {
            LeaseRequest::Begin(lease) if self.member(lease.solo).is_none() => Verdict::Vanished,
            LeaseRequest::Begin(lease) => match self.leases.begin(lease, self.now) {
                Ok(lease) => {
                    self.happened.push(Event::SoloBegan(lease.solo));
                    Verdict::Applied(self.now)
                }
                Err(refusal) => Verdict::Refused(refusal),
            },
            LeaseRequest::End(solo) => match self.leases.running() {
                Some((lease, _)) if lease.solo == solo => {
                    self.end_lease(SoloEnd::Released);
                    Verdict::Applied(self.now)
                }
                _ => Verdict::Vanished,
            },
        }
    }

    pub(crate) fn end_lease(&mut self, why: SoloEnd) {
        if let Some(lease) = self.leases.end(self.now) {
            self.happened.push(Event::SoloEnded(lease.solo, why));
        }
    }
}

fn refused(why: String) -> Verdict {
    Verdict::Refused(Refusal::System(why))
}
