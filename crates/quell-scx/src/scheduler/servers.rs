//! Deferrable servers: asked for by rule, reported when their budgets are used up.

use std::collections::BTreeMap;

use quell_model::{CpuId, CpuSet, Event, Nanos, Refusal, Rule, Verdict, Workload, WorkloadId};

use super::Scx;
use crate::ScxError;
use crate::layout::SERVERS;

/// A shorter budget would be used up by the kernel's own work for it: a switch, a timer.
const LEAST_BUDGET: Nanos = Nanos::from_micros(100);
/// The kernel ends a scheduler under which a thread waits for 30 s; a third of that is left to what comes on top.
const LONGEST_WAIT: Nanos = Nanos::from_secs(10);

/// Workloads with servers, and exhausted budgets.
#[derive(Default)]
pub(super) struct Served {
    /// Workloads without grants: one of them has a slot only while it has a server.
    pub others: BTreeMap<WorkloadId, Workload>,
    /// How often budgets were exhausted, by CPU and place: as of the last observation.
    pub exhausted: Vec<[u64; SERVERS]>,
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
        if !self.grant.has_servers() {
            let what = "its scheduler was loaded without servers; start anew, with a demand in the configuration";
            return Ok(Verdict::Refused(Refusal::Unsupported(what.to_owned())));
        }
        if let Some(why) = obstacle(budget, period) {
            return Ok(Verdict::Refused(Refusal::System(why)));
        }
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
        self.options.parts.servers && workload.is_lc() && workload.demand.is_some()
    }

    /// A workload has a slot while it has a server. False: there is no such workload.
    fn make_room(&mut self, id: WorkloadId) -> Result<bool, ScxError> {
        if self.is_attached(id) {
            return Ok(true);
        }
        let Some(spec) = self.served.others.get(&id).cloned() else { return Ok(false) };
        self.enter(id, spec)?;
        Ok(true)
    }

    /// A workload without servers to which no CPU is granted is the system's again.
    fn let_go(&mut self, id: WorkloadId) -> Result<(), ScxError> {
        if self.served.others.contains_key(&id) && self.grant.servers_of(id) == 0 {
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
        for found in self.grant.exhausted(&mut self.served.exhausted) {
            let mut overrun = found.overrun;
            for _ in 0..found.periods {
                events.push(Event::BudgetExhausted(found.workload, found.cpu, std::mem::take(&mut overrun)));
            }
        }
    }
}

/// Why there can be no such server here, and the fix.
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
    fn what_the_kernel_would_not_bear_is_refused_with_the_fix() {
        let why = |budget: u64, period: u64| obstacle(Nanos::from_micros(budget), Nanos::from_micros(period));
        assert_eq!(why(100, 1000), None);
        assert!(why(99, 1000).unwrap().contains("or more"));
        assert_eq!(why(5_000_000, 6_000_000), None);
        assert!(why(5_000_001, 6_000_000).unwrap().contains("--enforced"));
        assert!(why(1_000_000, 12_000_000).unwrap().contains("shorter period"));
        assert_eq!(why(60_000_000, 60_000_000), None, "a whole CPU, from which others are kept");
    }
}
