//! Carries plans out.

use quell_model::{
    Event, Knob, KnobSetting, LeaseRequest, Outcome, Part, Plan, PreemptionMode, Refusal, SoloEnd, Target, Verdict,
    WorkloadId,
};

use super::LinuxHost;
use crate::LinuxError;
use crate::actuators::{self, Aim, Draft};
use crate::clock;
use crate::write::Write;

impl LinuxHost {
    pub(super) fn carry_out(&mut self, plan: &Plan, events: &mut Vec<Event>) {
        let mut tell = |part, verdict| events.push(Event::Outcome(Outcome { plan: plan.number, part, verdict }));
        if !plan.knobs.is_empty() {
            let verdict = self.set_knobs(&plan.knobs).unwrap_or_else(|error| Verdict::Refused(error.into()));
            tell(Part::Knobs, verdict);
        }
        let parts = (0..plan.grants.len() as u32).map(|at| (Part::Grant(at), "it grants no single CPUs"));
        let parts =
            parts.chain((0..plan.rules.len() as u32).map(|at| (Part::Rule(at), "it has no rules in the kernel")));
        for (part, why) in parts {
            let what = format!("{why}; use the scx host or the simulator");
            tell(part, Verdict::Refused(Refusal::Unsupported(what)));
        }
        for (at, request) in plan.samples.iter().enumerate() {
            tell(Part::Sample(at as u32), self.sensors.ask(request));
        }
        for (at, request) in plan.leases.iter().enumerate() {
            let now = clock::now();
            let verdict = match request {
                LeaseRequest::Begin(lease) => match self.begin_solo(*lease, now) {
                    Ok(()) => Verdict::Applied(now),
                    Err(refusal) => Verdict::Refused(refusal),
                },
                LeaseRequest::End(id) if self.standing.solo.workload() == Some(*id) => {
                    self.end_solo(SoloEnd::Released, now);
                    Verdict::Applied(now)
                }
                LeaseRequest::End(_) => Verdict::Vanished,
            };
            tell(Part::Lease(at as u32), verdict);
        }
        self.take_samples();
        events.append(&mut self.pending);
    }

    /// All settings, or none. A target that is gone is left out.
    fn set_knobs(&mut self, settings: &[KnobSetting]) -> Result<Verdict, LinuxError> {
        let before = self.standing.values.clone();
        let result = self.try_knobs(settings);
        if !matches!(result, Ok(Verdict::Applied(_))) {
            self.standing.values = before;
        }
        result
    }

    fn try_knobs(&mut self, settings: &[KnobSetting]) -> Result<Verdict, LinuxError> {
        let mut dirty = Vec::new();
        let mut preemption = None;
        let mut found = 0;
        for setting in settings {
            found += usize::from(self.standing.values.take(setting, &self.members, &mut dirty)?);
            if let (Target::Machine, Knob::Preemption(mode)) = (setting.target, setting.knob) {
                preemption = Some(mode);
            }
        }
        if found == 0 {
            return Ok(Verdict::Vanished);
        }
        dirty.sort_unstable();
        dirty.dedup();
        let writes = self.compile(&dirty, preemption)?;
        self.make(&writes)?;
        Ok(Verdict::Applied(clock::now()))
    }

    /// The writes that make these workloads' values true.
    pub(super) fn compile(
        &mut self,
        dirty: &[WorkloadId],
        preemption: Option<PreemptionMode>,
    ) -> Result<Vec<Write>, LinuxError> {
        let (members, standing) = (&self.members, &self.standing);
        let workloads = dirty.iter().filter_map(|&id| standing.subject(id, members)).collect();
        let aim = Aim { workloads, threads: &members.threads, overrides: &standing.values.overrides, preemption };
        let mut draft = Draft::new(&mut self.writes, members);
        actuators::write(&aim, &mut draft)?;
        Ok(draft.finish())
    }

    /// Makes writes, all or none, and remembers them.
    pub(super) fn make(&mut self, writes: &[Write]) -> Result<(), LinuxError> {
        for write in self.writes.make(writes)? {
            if let Some(Ok(member)) = write.workload.map(|id| self.members.get_mut(id)) {
                member.history.note(write);
            }
        }
        Ok(())
    }

    /// Makes standing values true again where threads or cgroups are new, each workload for itself. What is refused is
    /// tried again at each scan, and logged the first time.
    pub(super) fn reapply(&mut self, dirty: &[WorkloadId], refused_before: &[WorkloadId]) {
        for id in dirty {
            self.settle_limit(*id);
            let result = self.compile(&[*id], None).and_then(|writes| self.make(&writes));
            if let Err(error) = result {
                if !refused_before.contains(id) {
                    tracing::warn!(workload = id.0, %error, "a workload's values could not be made true again");
                }
                self.unsettled.push(*id);
            }
        }
    }
}
