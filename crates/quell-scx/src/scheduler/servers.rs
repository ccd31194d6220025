//! Deferrable servers: asked for by rule, told of when their budgets are used up.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use quell_model::{CpuId, CpuSet, Event, Nanos, Refusal, Rule, Verdict, Workload, WorkloadId};

use super::Scx;
use crate::ScxError;
use crate::layout::WorkloadState;
use crate::program::Grant;

/// A shorter budget would be used up by the kernel's own work for it: a switch, a timer.
const LEAST_BUDGET: Nanos = Nanos::from_micros(100);
/// The kernel ends a scheduler under which a thread waits for 30 s; a third of that is left to what comes on top.
const LONGEST_WAIT: Nanos = Nanos::from_secs(10);

/// What a workload may do by itself.
fn rights(state: &WorkloadState) -> [&AtomicU32; 6] {
    [&state.guaranteed, &state.burst, &state.limit, &state.in_line, &state.rank, &state.on_wake_up]
}

impl Scx {
    pub(super) fn serve(&mut self, rule: &Rule, kicks: &mut CpuSet) -> Result<Verdict, ScxError> {
        let Rule::Server { workload, cpu, budget, period, priority } = *rule else { return Ok(Verdict::Vanished) };
        if budget == Nanos::ZERO {
            if self.take_server(workload, cpu)? {
                kicks.insert(cpu);
            }
            return Ok(Verdict::Applied(quell_linux::now()));
        }
        if !self.is_in_pool(cpu) {
            return Ok(Verdict::Vanished);
        }
        if let Some(why) = obstacle(budget, period) {
            return Ok(Verdict::Refused(Refusal::System(why)));
        }
        self.begin_serving()?;
        match self.make_room(workload) {
            Ok(true) => {}
            Ok(false) => return Ok(Verdict::Vanished),
            Err(error @ (ScxError::NoCgroup { .. } | ScxError::TooMany { .. })) => {
                return Ok(Verdict::Refused(Refusal::System(error.to_string())));
            }
            Err(error) => return Err(error),
        }
        match self.grant.set_server(workload, cpu, (budget, period), priority) {
            Ok(()) => {}
            Err(error @ ScxError::TooMany { .. }) => {
                self.let_go(workload)?;
                return Ok(Verdict::Refused(Refusal::System(error.to_string())));
            }
            Err(error) => return Err(error),
        }
        kicks.insert(cpu);
        Ok(Verdict::Applied(quell_linux::now()))
    }

    /// Is the workload one that a policy will ask for a server for?
    pub(super) fn is_to_be_served(&self, workload: &Workload) -> bool {
        self.options.servers && workload.is_lc() && workload.demand.is_some()
    }

    /// A workload has a slot while it has a server. False: there is no such workload.
    fn make_room(&mut self, id: WorkloadId) -> Result<bool, ScxError> {
        if self.is_attached(id) {
            return Ok(true);
        }
        let Some(spec) = self.others.get(&id).cloned() else { return Ok(false) };
        self.enter(id, spec)?;
        Ok(true)
    }

    /// A workload without servers to which no CPU is granted is the system's again.
    fn let_go(&mut self, id: WorkloadId) -> Result<(), ScxError> {
        if self.others.contains_key(&id) && self.grant.servers_of(id) == 0 {
            self.leave(id)?;
        }
        Ok(())
    }

    fn take_server(&mut self, id: WorkloadId, cpu: CpuId) -> Result<bool, ScxError> {
        let had = self.grant.take_server(id, cpu)?;
        self.let_go(id)?;
        Ok(had)
    }

    /// The workload goes.
    pub(super) fn take_servers(&mut self, id: WorkloadId) -> Result<(), ScxError> {
        if self.grant.servers_of(id) == 0 {
            return Ok(());
        }
        let mut kicks = CpuSet::EMPTY;
        for cpu in self.grant.cpus().collect::<Vec<_>>() {
            if self.grant.take_server(id, cpu)? {
                kicks.insert(cpu);
            }
        }
        self.grant.kick(&kicks)
    }

    /// Budgets that were used up while threads wanted to run.
    pub(super) fn hear_of_servers(&mut self, events: &mut Vec<Event>) {
        for found in self.grant.exhausted(&mut self.exhausted) {
            let mut overrun = found.overrun;
            for _ in 0..found.periods {
                events.push(Event::BudgetExhausted(found.workload, found.cpu, std::mem::take(&mut overrun)));
            }
        }
    }

    /// The first server: the scheduler is loaded anew, with the code for it. Workloads keep their rights and CPUs.
    fn begin_serving(&mut self) -> Result<(), ScxError> {
        if self.grant.has_servers() {
            return Ok(());
        }
        let began = quell_linux::now();
        let held: Vec<_> = self.grant.cpus().map(|cpu| (cpu, self.grant.holder(cpu))).collect();
        let rights_of = |grant: &Grant, id: WorkloadId| -> Result<[u32; 6], ScxError> {
            Ok(rights(grant.workload(id)?).map(|right| right.load(Acquire)))
        };
        let ids = (0..self.slots.len() as u32).map(WorkloadId).filter(|id| self.is_attached(*id));
        let kept = ids.map(|id| Ok((id, rights_of(&self.grant, id)?))).collect::<Result<Vec<_>, ScxError>>()?;
        self.grant.end();
        self.options.servers = true;
        self.grant = Scx::load_grant(&self.topology, &self.roots, &self.options)?;
        for (id, values) in kept {
            let Some(Some(attached)) = self.slots.get_mut(id.index()) else { continue };
            self.grant.attach(id, &attached.spec, &attached.cgroups)?;
            let state = self.grant.workload(id)?;
            rights(state).into_iter().zip(values).for_each(|(right, value)| right.store(value, Release));
            (attached.run_time_before, attached.formed) = (0, 0);
        }
        for (cpu, before) in held {
            let now = self.grant.holder(cpu);
            if before != now {
                self.grant.hand_on(cpu, now, before.workload());
            }
            self.holders[cpu.index()] = self.grant.holder(cpu);
        }
        self.yields.fill(0);
        self.fetched = 0;
        let gap = quell_linux::now() - began;
        tracing::info!(%gap, "the scheduler was loaded anew, with servers; the kernel's own ran meanwhile");
        Ok(())
    }
}

/// Why there can be no such server here, and the mend.
fn obstacle(budget: Nanos, period: Nanos) -> Option<String> {
    if budget < LEAST_BUDGET {
        return Some(format!(
            "a budget of {budget} is too short: the kernel's own work for a server would use it up; give {LEAST_BUDGET} or \
             more, in a longer period"
        ));
    }
    if budget >= period {
        return None;
    }
    let (enforced, waits) = (budget + budget, period - budget);
    if enforced > LONGEST_WAIT {
        return Some(format!(
            "others would wait for {enforced} at once, and the kernel ends a scheduler under which a thread waits for 30 s; \
             give a shorter period: its enforced blackout is to be {LONGEST_WAIT} at most (quell vas --enforced \
             {LONGEST_WAIT})"
        ));
    }
    (waits > LONGEST_WAIT).then(|| {
        format!(
            "without a budget its own threads would wait for {waits}, and the kernel ends a scheduler under which a thread \
             waits for 30 s; give a shorter period"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_would_not_bear_is_refused_with_the_mend() {
        let why = |budget: u64, period: u64| obstacle(Nanos::from_micros(budget), Nanos::from_micros(period));
        assert_eq!(why(100, 1000), None);
        assert!(why(99, 1000).unwrap().contains("or more"));
        assert_eq!(why(5_000_000, 6_000_000), None);
        assert!(why(5_000_001, 6_000_000).unwrap().contains("--enforced"));
        assert!(why(1_000_000, 12_000_000).unwrap().contains("shorter period"));
        assert_eq!(why(60_000_000, 60_000_000), None, "a whole CPU, from which others are kept");
    }
}
