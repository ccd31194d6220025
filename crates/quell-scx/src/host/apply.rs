//! Carries a plan out: rules first, then grants with one kick for all of them; the rest is the stock host's.

use std::sync::atomic::Ordering::{Acquire, Release};

use quell_model::{
    CpuId, CpuSet, Event, GrantCommand, Host, Nanos, Outcome, Part, Plan, Refusal, Rule, Verdict, WorkloadId,
};

use super::ScxHost;
use crate::ScxError;

impl ScxHost {
    pub(super) fn carry_out(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), ScxError> {
        if plan.is_idle() {
            return Ok(());
        }
        self.patience = Nanos::ZERO;
        let mut kicks = CpuSet::EMPTY;
        let outcome = |part, verdict| Event::Outcome(Outcome { plan: plan.number, part, verdict });
        for (at, rule) in plan.rules.iter().enumerate() {
            let verdict = self.enact(rule, &mut kicks)?;
            events.push(outcome(Part::Rule(at as u32), verdict));
        }
        let first = events.len();
        for (at, command) in plan.grants.iter().enumerate() {
            let verdict = self.command(command, &mut kicks);
            events.push(outcome(Part::Grant(at as u32), verdict));
        }
        self.grant.kick(&kicks)?;
        let now = self.linux.now();
        for event in &mut events[first..] {
            if let Event::Outcome(Outcome { verdict: Verdict::Applied(at), .. }) = event {
                *at = now;
            }
        }
        if plan.knobs.is_empty() && plan.leases.is_empty() && plan.samples.is_empty() {
            return Ok(());
        }
        self.rest.begin(plan.number);
        self.rest.knobs.extend_from_slice(&plan.knobs);
        self.rest.leases.extend_from_slice(&plan.leases);
        self.rest.samples.extend_from_slice(&plan.samples);
        self.linux.apply(&self.rest, events)?;
        Ok(())
    }

    fn command(&mut self, command: &GrantCommand, kicks: &mut CpuSet) -> Verdict {
        let (cpu, to) = match *command {
            GrantCommand::Grant(cpu, id) if !self.is_attached(id) => {
                tracing::debug!(%cpu, "a CPU was granted to a workload that is gone");
                return Verdict::Vanished;
            }
            GrantCommand::Grant(cpu, id) => (cpu, Some(id)),
            GrantCommand::Revoke(cpu) => (cpu, None),
        };
        if !self.is_in_pool(cpu) {
            let why = format!("CPU {cpu} is not among those that this host hands out, or is offline");
            return Verdict::Refused(Refusal::Forbidden(why));
        }
        match self.grant.hand_on(cpu, self.holders[cpu.index()], to) {
            Some(changed) => {
                self.holders[cpu.index()] = self.grant.holder(cpu);
                if changed {
                    kicks.insert(cpu);
                }
                Verdict::Applied(self.linux.now())
            }
            None => Verdict::Refused(Refusal::Overtaken),
        }
    }

    fn enact(&mut self, rule: &Rule, kicks: &mut CpuSet) -> Result<Verdict, ScxError> {
        let (Rule::Guaranteed { workload, .. }
        | Rule::Burst { workload, .. }
        | Rule::Limit { workload, .. }
        | Rule::Rank { workload, .. }) = *rule
        else {
            return Ok(self.ban(rule, kicks));
        };
        if !self.is_attached(workload) {
            return Ok(Verdict::Vanished);
        }
        let state = self.grant.workload(workload)?;
        match *rule {
            Rule::Guaranteed { cpus, .. } => state.guaranteed.store(cpus, Release),
            Rule::Burst { cpus, .. } => state.burst.store(cpus, Release),
            Rule::Limit { cpus, .. } => state.limit.store(cpus, Release),
            Rule::Rank { rank, .. } => {
                state.rank.store(rank, Release);
                state.in_line.store(1, Release);
            }
            Rule::SiblingBan { .. } | Rule::Server { .. } => {}
        }
        // Who is in line takes a CPU that was yielded before, too.
        let takes = [&state.guaranteed, &state.burst, &state.in_line].iter().any(|right| right.load(Acquire) > 0);
        state.on_wake_up.store(takes.into(), Release);
        Ok(Verdict::Applied(self.linux.now()))
    }

    fn ban(&mut self, rule: &Rule, kicks: &mut CpuSet) -> Verdict {
        let Rule::SiblingBan { cpu, request_start } = *rule else {
            let what = "it has no deferrable servers; use the simulator".to_owned();
            return Verdict::Refused(Refusal::Unsupported(what));
        };
        if !self.is_in_pool(cpu) {
            return Verdict::Vanished;
        }
        self.grant.ban(cpu, request_start);
        *kicks = kicks.union(&self.topology.siblings_of(cpu));
        Verdict::Applied(self.linux.now())
    }

    fn is_attached(&self, id: WorkloadId) -> bool {
        self.slots.get(id.index()).is_some_and(Option::is_some)
    }

    fn is_in_pool(&self, cpu: CpuId) -> bool {
        let state = self.grant.cpu(cpu);
        let is = |flag: &std::sync::atomic::AtomicU32| flag.load(std::sync::atomic::Ordering::Acquire) == 1;
        cpu.index() < self.topology.columns() && is(&state.in_pool) && is(&state.online)
    }
}
