//! Rules: what the scheduler does by itself at the event.

use std::sync::atomic::Ordering::{Acquire, Release};

use quell_model::{CpuId, CpuSet, Nanos, Rule, Verdict};

use super::Scx;
use crate::ScxError;
use crate::program::Holder;

impl Scx {
    pub(super) fn enact(&mut self, rule: &Rule, kicks: &mut CpuSet) -> Result<Verdict, ScxError> {
        let (Rule::Guaranteed { workload, .. }
        | Rule::Burst { workload, .. }
        | Rule::Limit { workload, .. }
        | Rule::Rank { workload, .. }) = *rule
        else {
            return match *rule {
                Rule::SiblingBan { cpu, request_start } => Ok(self.ban(cpu, request_start, kicks)),
                Rule::Together { workload, leader, order } => self.hold_as_one(workload, leader, order),
                _ => self.serve(rule, kicks),
            };
        };
        if let Some(refused) = self.cookies.verdict(workload) {
            return Ok(refused);
        }
        if !self.is_attached(workload) {
            return Ok(Verdict::Vanished);
        }
        let state = self.grant.workload(workload)?;
        match *rule {
            Rule::Guaranteed { cpus, .. } => state.guaranteed.store(cpus, Release),
            Rule::Burst { cpus, .. } => state.burst.store(cpus, Release),
            Rule::Limit { cpus, .. } => state.limit.store(cpus, Release),
            Rule::Rank { rank, .. } => self.grant.put_in_line(workload, rank)?,
            Rule::SiblingBan { .. } | Rule::Server { .. } | Rule::Together { .. } => {}
        }
        let state = self.grant.workload(workload)?;
        // Who is in line takes a CPU that was yielded before, too.
        let takes = [&state.guaranteed, &state.burst, &state.in_line].iter().any(|right| right.load(Acquire) > 0);
        state.on_wake_up.store(takes.into(), Release);
        // Its threads that wait by now may use them.
        let is_waiting = state.queued.load(Acquire) != state.taken.load(Acquire);
        for cpu in self.grant.cpus().filter(|&cpu| is_waiting && self.grant.holder(cpu) == Holder::default()) {
            kicks.insert(cpu);
        }
        Ok(Verdict::Applied(quell_linux::now()))
    }

    fn ban(&mut self, cpu: CpuId, request_start: Nanos, kicks: &mut CpuSet) -> Verdict {
        if !self.is_in_pool(cpu) {
            return Verdict::Vanished;
        }
        let start = self.seen.exported.ban(cpu, self.grant.cpu(cpu), request_start);
        self.grant.ban(cpu, start);
        *kicks = kicks.union(&self.topology.siblings_of(cpu));
        Verdict::Applied(quell_linux::now())
    }
}
