//! What the agent is asked to do while it runs.

use quell_linux::LinuxHost;
use quell_model::{Host, Nanos, View, WorkloadId};
use quell_policy::AnyPolicy;

use super::agent::Agent;
use crate::AgentError;
use crate::api::control::{Call, Switched, Switching};
use crate::guardian::Worker;
use crate::stack;
use crate::watch::SIGNALS;
use crate::wire::{Controlled, Problem, Verified};

impl Agent {
    /// Answers what was asked since the last turn. To be called at a turn's end, when its plans are in force.
    pub(super) fn answer_calls(&mut self, worker: Option<&Worker>, now: Nanos) -> Result<(), AgentError> {
        // What was switched on before this turn stands now. The caller may have gone.
        self.switched_on.drain(..).for_each(|(answer, outcome)| _ = answer.send(Ok(outcome)));
        self.answer_leases();
        for call in self.observers.calls() {
            match call {
                Call::Switch { switched, by, lease, answer } => {
                    if switched != Switched::On {
                        self.cut_proving(worker, now)?;
                    }
                    let outcome = self.control(switched, &by, lease, worker, now)?;
                    match switched {
                        Switched::On => self.switched_on.push((answer, outcome)),
                        Switched::Off | Switched::OffWhileConnected => _ = answer.send(Ok(outcome)),
                    }
                }
                Call::Lease { protect, by, lease, answer } => self.lease(&protect, &by, lease, answer),
                Call::Prove { prove, by, lease, ended, answer } => {
                    let begun = self.begin_proving(&prove, &by, lease, ended, worker, now)?;
                    self.answer_in_force(answer, begun);
                }
                Call::Turn(turn, by, answer) => {
                    let taken = self.next_turn(turn, &by, worker, now)?;
                    self.answer_in_force(answer, taken);
                }
                Call::Resize(resize, answer) => _ = answer.send(self.resize(&resize)),
                Call::LeaseEnded(number) => {
                    self.end_lease(number);
                    self.end_proving(number, worker, now)?;
                    self.switch.end_lease(number);
                    self.follow_switch("a lease ended", worker)?;
                }
                Call::Verify(answer) => _ = answer.send(self.verify()),
            }
        }
        Ok(())
    }

    /// What sets something is answered when the next turn's plans are in force.
    fn answer_in_force(&mut self, answer: Switching, outcome: Result<Controlled, Problem>) {
        match outcome {
            Ok(outcome) if outcome.off.is_none() => self.switched_on.push((answer, outcome)),
            outcome => _ = answer.send(outcome),
        }
    }

    fn control(
        &mut self,
        switched: Switched,
        by: &str,
        lease: u64,
        worker: Option<&Worker>,
        now: Nanos,
    ) -> Result<Controlled, AgentError> {
        let mut left = Vec::new();
        match switched {
            Switched::Off => left.extend(self.switch.off(by, now).err()),
            Switched::On => self.switch.on(),
            Switched::OffWhileConnected => self.switch.lease(lease, by, now),
        }
        let (put_back, not_put_back) = self.follow_switch(by, worker)?;
        left.extend(not_put_back);
        Ok(Controlled { off: self.switch.reported(), put_back, left })
    }

    /// Makes the agent what its switch says. Returns the number of values put back, and what could not be put back.
    pub(super) fn follow_switch(
        &mut self,
        by: &str,
        worker: Option<&Worker>,
    ) -> Result<(u64, Vec<String>), AgentError> {
        let mut done = (0, Vec::new());
        // An experiment is about policies: the pods' reservations are the same in all of its turns.
        self.leases.pods.suspend(self.switch.is_off() && self.leases.proving.is_none());
        if self.switch.is_off() && !self.host.is_suspended() {
            let report = self.host.suspend().map_err(|error| AgentError::Host(error.to_string()))?;
            self.observers.end_record("a switched-off agent has no policies to replay");
            // No solo run is under way any more.
            worker.into_iter().for_each(|worker| worker.lease(None));
            self.restack(true)?;
            self.membership.forget_overridden();
            done = (report.restored.len() as u64, report.left.iter().map(ToString::to_string).collect());
            if self.leases.proving.is_some() {
                tracing::info!("off for a turn of an experiment: {} values put back", done.0);
            } else {
                tracing::warn!(
                    "switched off by {by}: {} values put back, nothing is set until it is switched on",
                    done.0
                );
            }
        } else if !self.switch.is_off() && self.host.is_suspended() {
            // Policies begin anew: what they know of is put back.
            self.host.resume().map_err(|error| AgentError::Host(error.to_string()))?;
            self.membership.detach_all(&mut self.host);
            self.restack(false)?;
            if self.leases.proving.is_some() {
                tracing::info!("on for a turn of an experiment");
            } else {
                tracing::warn!("switched on: {by}");
            }
        }
        self.inform();
        Ok(done)
    }

    /// A stack of fresh policies, or of the same number of those that do nothing.
    fn restack(&mut self, idle: bool) -> Result<(), AgentError> {
        let topology = self.host.topology();
        let pool = self.config.pool(topology.all());
        let layers = self.layers_of_turn(self.config.layers(&self.membership.ids(&self.config)));
        let mut layers = stack::curbed(layers, &self.host.capabilities());
        if idle {
            let none = AnyPolicy::named("none").expect("it is in the registry");
            layers.iter_mut().for_each(|layer| layer.policy = none.clone());
        }
        self.stack = stack::over(layers, View::new(topology), pool)?;
        self.stack.also_measure(SIGNALS, quell_linux::cpu_time);
        Ok(())
    }

    /// Reads everything back.
    fn verify(&mut self) -> Verified {
        if let Some(off) = self.switch.reported() {
            let line = format!("switched off by {}: nothing is set; `quell on`", off.by.join(", "));
            return Verified { workloads: 0, threads: 0, differences: vec![line] };
        }
        let names = self.config.workloads.iter().map(|member| member.workload.name.clone());
        let ids = self.membership.ids(&self.config);
        let attached: Vec<_> = names.zip(ids).filter_map(|(name, id)| Some((id?, name))).collect();
        let mut verified = verified(&mut self.host, &attached);
        verified.differences.extend(self.membership.troubles());
        verified
    }
}

/// Reads everything back that was set on these workloads, and on the machine.
pub(crate) fn verified(host: &mut LinuxHost, workloads: &[(WorkloadId, String)]) -> Verified {
    let mut verified = Verified { workloads: workloads.len() as u64, threads: 0, differences: Vec::new() };
    for (id, name) in workloads {
        verified.threads += host.thread_count(*id) as u64;
        if let Some(quell_linux::LimitState::NotKept(why)) = host.limit_state(*id) {
            verified.differences.push(format!("{name}: its limit is not kept: {why}"));
        }
    }
    for difference in host.differences() {
        let of = workloads.iter().find(|(id, _)| Some(*id) == difference.workload);
        let of = of.map_or("the machine", |(_, name)| name);
        let (place, found, wanted) = (&difference.place, &difference.found, &difference.wanted);
        verified.differences.push(format!("{of}: {place}: {found} instead of {wanted}"));
    }
    for touched in host.touched_of_the_machine() {
        let Ok(Some(found)) = host.standing(&touched.place) else { continue };
        if !crate::journal::replay::same(&found, &touched.last) {
            verified.differences.push(format!("the machine: {}: {found} instead of {}", touched.place, touched.last));
        }
    }
    verified
}
