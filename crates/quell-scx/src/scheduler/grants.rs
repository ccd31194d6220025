//! Carries out rules, then grants, with one kick for all of them.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;

use quell_model::{CpuId, CpuSet, Event, GrantCommand, Nanos, Outcome, Part, Plan, Refusal, Verdict, WorkloadId};

use super::Scx;
use crate::ScxError;

impl Scx {
    pub(super) fn hand_out(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), ScxError> {
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
        let now = quell_linux::now();
        for event in &mut events[first..] {
            if let Event::Outcome(Outcome { verdict: Verdict::Applied(at), .. }) = event {
                *at = now;
            }
        }
        Ok(())
    }

    fn command(&mut self, command: &GrantCommand, kicks: &mut CpuSet) -> Verdict {
        let (cpu, to) = match *command {
            GrantCommand::Grant(_, id) if self.cookies.verdict(id).is_some() => {
                return self.cookies.verdict(id).expect("it was there");
            }
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
        match self.grant.hand_on(cpu, self.seen.holders[cpu.index()], to) {
            Some(changed) => {
                self.seen.holders[cpu.index()] = self.grant.holder(cpu);
                if changed {
                    kicks.insert(cpu);
                }
                Verdict::Applied(quell_linux::now())
            }
            None => Verdict::Refused(Refusal::Overtaken),
        }
    }

    pub(super) fn is_attached(&self, id: WorkloadId) -> bool {
        self.slots.get(id.index()).is_some_and(Option::is_some)
    }

    pub(super) fn is_in_pool(&self, cpu: CpuId) -> bool {
        let state = self.grant.cpu(cpu);
        let is = |flag: &AtomicU32| flag.load(Acquire) == 1;
        cpu.index() < self.topology.columns() && is(&state.in_pool) && is(&state.online)
    }
}
