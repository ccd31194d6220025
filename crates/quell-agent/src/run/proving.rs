//! An experiment: one caller at a time has the agent alternate between its configuration and nothing, or between two policies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quell_model::{Host as _, Nanos, Policy as _, View, WorkloadId};
use quell_policy::AnyPolicy;

use super::agent::Agent;
use crate::AgentError;
use crate::guardian::Worker;
use crate::stack::{self, Layer};
use crate::wire::{Choice, Controlled, Problem, Prove, Turn};

/// The experiment under way.
#[derive(Debug)]
pub(super) struct Proving {
    lease: u64,
    by: String,
    workload: Option<String>,
    /// The policies of that workload while it is off and while it is on; None: nothing, and as configured.
    policies: [Option<AnyPolicy>; 2],
    is_on: bool,
    ended: Arc<AtomicBool>,
}

impl Proving {
    /// What it is asked to be.
    fn of(prove: &Prove, by: &str, lease: u64, ended: Arc<AtomicBool>) -> Result<Proving, Problem> {
        let built = |choice: &Option<Choice>| -> Result<Option<AnyPolicy>, Problem> {
            let Some(Choice { policy, parameters }) = choice else { return Ok(None) };
            let parameters = serde_json::Value::Object(parameters.clone());
            AnyPolicy::build(policy, parameters)
                .map(Some)
                .map_err(|error| refusal(&error.to_string(), "see `quell doctor`"))
        };
        let policies = [built(&prove.off)?, built(&prove.on)?];
        if let Some(policy) = policies.iter().flatten().find(|policy| policy.describe().can_use_own_scheduler()) {
            let error = format!("policy '{}' hands out CPUs, which needs another start", policy.describe().name);
            return Err(refusal(&error, "ask for another policy (guard)"));
        }
        if prove.workload.is_none() && policies.iter().any(Option::is_some) {
            return Err(refusal("policies are exchanged for a workload, and none is named", "name one"));
        }
        Ok(Proving { lease, by: by.to_owned(), workload: prove.workload.clone(), policies, is_on: true, ended })
    }

    /// The policy that takes the place of the workload's own in this turn.
    fn policy(&self, is_on: bool) -> Option<&AnyPolicy> {
        self.policies[usize::from(is_on)].as_ref()
    }
}

fn refusal(error: &str, fix: &str) -> Problem {
    Problem { error: error.to_owned(), fix: fix.to_owned() }
}

/// The layers with this policy in place of those that own the workload.
fn exchanged(mut layers: Vec<Layer>, id: Option<WorkloadId>, policy: &AnyPolicy) -> Vec<Layer> {
    let owns = |layer: &Layer| layer.workloads.as_ref().is_none_or(|owned| id.is_some_and(|id| owned.contains(&id)));
    layers.iter_mut().filter(|layer| owns(layer)).for_each(|layer| layer.policy = policy.clone());
    layers
}

impl Agent {
    /// Begins an experiment.
    pub(super) fn begin_proving(
        &mut self,
        prove: &Prove,
        by: &str,
        lease: u64,
        ended: Arc<AtomicBool>,
        worker: Option<&Worker>,
        now: Nanos,
    ) -> Result<Result<Controlled, Problem>, AgentError> {
        let proving = match self.admit(prove, by, lease, ended) {
            Ok(proving) => proving,
            Err(problem) => return Ok(Err(problem)),
        };
        let is_exchanged = proving.policy(true).is_some();
        tracing::info!("an experiment of {by} begins");
        self.leases.proving = Some(proving);
        if is_exchanged { self.take_turn(true, worker, now).map(Ok) } else { Ok(Ok(self.stands((0, Vec::new())))) }
    }

    fn admit(&self, prove: &Prove, by: &str, lease: u64, ended: Arc<AtomicBool>) -> Result<Proving, Problem> {
        if self.only_looks() {
            return Err(refusal(
                "this agent only observes (--dry-run, --shadow) and sets nothing",
                "ask one that `quell run` started",
            ));
        }
        if let Some(other) = &self.leases.proving {
            return Err(refusal(&format!("{} proves already", other.by), "wait for its end, or stop it"));
        }
        if let Some(off) = self.switch.reported() {
            return Err(refusal(
                &format!("the agent is switched off by {}", off.by.join(", ")),
                "run `quell on` first",
            ));
        }
        let proving = Proving::of(prove, by, lease, ended)?;
        if let Some(name) = &proving.workload
            && self.config.workload(name).is_none()
        {
            return Err(refusal(&format!("there is no workload '{name}'"), "see `quell status`"));
        }
        for policy in proving.policies.iter().flatten() {
            let missing = self.host.capabilities().fidelity(policy.describe()).missing;
            if let Some(lack) = missing.first() {
                let error = format!("policy '{}' cannot work here: {lack}", policy.describe().name);
                return Err(refusal(&error, "ask for another policy"));
            }
            let layers =
                exchanged(self.config.layers(&self.membership.ids(&self.config)), self.id_of(&proving), policy);
            let (topology, capabilities) = (self.host.topology(), self.host.capabilities());
            let pool = self.config.pool(topology.all());
            if let Err(error) = stack::over(stack::curbed(layers, &capabilities), View::new(topology), pool) {
                return Err(refusal(&error.to_string().replace('\n', " "), "ask for another policy"));
            }
        }
        Ok(proving)
    }

    fn id_of(&self, proving: &Proving) -> Option<WorkloadId> {
        let name = proving.workload.as_ref()?;
        self.membership.standing(name).and_then(|(id, _)| id)
    }

    /// The layers of this turn of an experiment; those of the configuration without one.
    pub(super) fn layers_of_turn(&self, layers: Vec<Layer>) -> Vec<Layer> {
        let Some(proving) = &self.leases.proving else { return layers };
        match proving.policy(proving.is_on) {
            Some(policy) => exchanged(layers, self.id_of(proving), policy),
            None => layers,
        }
    }

    /// The next turn of a caller's experiment.
    pub(super) fn next_turn(
        &mut self,
        turn: Turn,
        by: &str,
        worker: Option<&Worker>,
        now: Nanos,
    ) -> Result<Result<Controlled, Problem>, AgentError> {
        match &self.leases.proving {
            // Another turn of the same kind: nothing changes.
            Some(proving) if proving.by == by && proving.is_on == turn.on => Ok(Ok(self.stands((0, Vec::new())))),
            Some(proving) if proving.by == by => self.take_turn(turn.on, worker, now).map(Ok),
            _ => Ok(Err(refusal("there is no experiment of this caller: it has ended", "begin another one"))),
        }
    }

    fn take_turn(&mut self, is_on: bool, worker: Option<&Worker>, now: Nanos) -> Result<Controlled, AgentError> {
        let Some(proving) = &mut self.leases.proving else { return Ok(self.stands((0, Vec::new()))) };
        proving.is_on = is_on;
        let (lease, by) = (proving.lease, proving.by.clone());
        let is_off = !is_on && proving.policy(false).is_none();
        // All that the turn before had set is put back first.
        self.switch.lease(lease, &by, now);
        let done = self.follow_switch(&by, worker)?;
        if !is_off {
            self.switch.end_lease(lease);
            self.follow_switch(&by, worker)?;
        }
        Ok(self.stands(done))
    }

    fn stands(&self, (put_back, left): (u64, Vec<String>)) -> Controlled {
        Controlled { off: self.switch.reported(), put_back, left }
    }

    /// An experiment ends, if this is its lease: everything is as configured again.
    pub(super) fn end_proving(&mut self, lease: u64, worker: Option<&Worker>, now: Nanos) -> Result<(), AgentError> {
        if self.leases.proving.as_ref().is_none_or(|proving| proving.lease != lease) {
            return Ok(());
        }
        let Some(proving) = self.leases.proving.take() else { return Ok(()) };
        proving.ended.store(true, Ordering::Release);
        tracing::info!("the experiment of {} has ended", proving.by);
        if proving.policy(proving.is_on).is_some() {
            self.switch.lease(lease, &proving.by, now);
            self.follow_switch(&proving.by, worker)?;
        }
        self.switch.end_lease(lease);
        self.follow_switch("the end of an experiment", worker)?;
        Ok(())
    }

    /// Ends the experiment under way, whose: what it compares is about to change.
    pub(super) fn cut_proving(&mut self, worker: Option<&Worker>, now: Nanos) -> Result<(), AgentError> {
        match self.leases.proving.as_ref().map(|proving| proving.lease) {
            Some(lease) => self.end_proving(lease, worker, now),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "proving_tests.rs"]
mod tests;
