//! Workloads that hold CPUs as one: asked for by rule, their threads' weights and wake-up latencies by knob.

use quell_model::{Knob, KnobSetting, Nanos, QueueOrder, Refusal, Target, Verdict, WorkloadId};

use super::Scx;
use crate::ScxError;
use crate::together::ThreadSetting;

impl Scx {
    pub(super) fn hold_as_one(
        &mut self,
        id: WorkloadId,
        leader: Option<WorkloadId>,
        order: QueueOrder,
    ) -> Result<Verdict, ScxError> {
        let Some(leader) = leader else {
            self.grant.part(id)?;
            return Ok(Verdict::Applied(quell_linux::now()));
        };
        if !self.is_attached(id) || !self.is_attached(leader) {
            return Ok(Verdict::Vanished);
        }
        if let Some(why) = self.obstacle(id, leader) {
            return Ok(Verdict::Refused(why));
        }
        self.grant.join(id, leader, order)?;
        Ok(Verdict::Applied(quell_linux::now()))
    }

    /// Why they cannot, and the fix.
    fn obstacle(&self, id: WorkloadId, leader: WorkloadId) -> Option<Refusal> {
        if !self.grant.can_hold_as_one() {
            let what = "its scheduler was loaded without CPUs that are held as one; start anew, with dasec in the configuration";
            return Some(Refusal::Unsupported(what.to_owned()));
        }
        let is_lc = |id: WorkloadId| self.slots[id.index()].as_ref().is_some_and(|attached| attached.spec.is_lc());
        if !is_lc(id) || !is_lc(leader) {
            let what = "only latency-critical workloads hold CPUs as one: write class = \"lc\", or leave it out";
            return Some(Refusal::System(what.to_owned()));
        }
        if [id, leader].iter().any(|&id| self.grant.servers_of(id) > 0) {
            let what = "a workload with deferrable servers has CPUs of its own: leave one of the two out";
            return Some(Refusal::System(what.to_owned()));
        }
        let leads_others = |one: WorkloadId| self.grant.leader_of(one).is_some_and(|its| its != one);
        if leads_others(leader) || (id != leader && self.grant.leader_of(id) == Some(id)) {
            let what =
                "a workload holds CPUs as one with one leader, which leads itself: take it from the other one before";
            return Some(Refusal::System(what.to_owned()));
        }
        None
    }

    /// Is this a setting of a thread that the kernel half keeps?
    pub(super) fn keeps_setting(&self, knob: &Knob, id: WorkloadId) -> bool {
        matches!(knob, Knob::Weight(_) | Knob::WakeUpLatency(_)) && self.grant.leader_of(id).is_some()
    }

    /// Settings of threads take effect; those of one thread stand after each other in a plan.
    pub(super) fn give(&mut self, settings: &[KnobSetting]) -> Result<(), ScxError> {
        self.given.clear();
        for setting in settings {
            let Target::Thread(thread) = setting.target else { continue };
            let (weight, latency) = match setting.knob {
                Knob::Weight(weight) => (weight, Nanos::ZERO),
                Knob::WakeUpLatency(latency) => (0, latency.unwrap_or(ThreadSetting::COMMON_LATENCY)),
                _ => continue,
            };
            match self.given.last_mut().filter(|last| last.tid == thread.tid) {
                Some(last) => {
                    *last = ThreadSetting {
                        tid: thread.tid,
                        weight: last.weight.max(weight),
                        latency: last.latency.max(latency),
                    }
                }
                None => self.given.push(ThreadSetting { tid: thread.tid, weight, latency }),
            }
        }
        self.grant.set_threads(&self.given)
    }
}
