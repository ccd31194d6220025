//! Carries plans out.

use quell_model::{
    Event, Knob, KnobSetting, LeaseRequest, Outcome, Part, Plan, Refusal, SoloEnd, Target, ThreadId, Verdict,
    WorkloadId,
};

use super::LinuxHost;
use crate::LinuxError;
use crate::clock;
use crate::knobs::{self, Compiler, Subject, Wanted};
use crate::write::{self, Write, Written};

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
            tell(Part::Sample(at as u32), self.bandwidth.ask(request));
        }
        for (at, request) in plan.leases.iter().enumerate() {
            let now = clock::now();
            let verdict = match request {
                LeaseRequest::Begin(lease) => match self.begin_solo(*lease, now) {
                    Ok(()) => Verdict::Applied(now),
                    Err(refusal) => Verdict::Refused(refusal),
                },
                LeaseRequest::End(id) if self.solo_of() == Some(*id) => {
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
        let standing: Vec<Option<Wanted>> =
            self.slots.iter().map(|slot| slot.as_ref().map(|managed| managed.standing)).collect();
        let overrides = self.overrides.clone();
        let result = self.try_knobs(settings);
        if !matches!(result, Ok(Verdict::Applied(_))) {
            for (slot, standing) in self.slots.iter_mut().zip(standing) {
                if let (Some(managed), Some(standing)) = (slot, standing) {
                    managed.standing = standing;
                }
            }
            self.overrides = overrides;
        }
        result
    }

    fn try_knobs(&mut self, settings: &[KnobSetting]) -> Result<Verdict, LinuxError> {
        let mut dirty = Vec::new();
        let mut preemption = None;
        let mut found = 0;
        for setting in settings {
            knobs::check(&setting.knob, &self.online)?;
            found += usize::from(match (setting.target, setting.knob) {
                (Target::Machine, Knob::Preemption(mode)) => {
                    let allowed = self.options.preemption_mode;
                    check_allowed(allowed, "the preemption mode concerns the whole machine", "machine.preemption")?;
                    preemption = Some(mode);
                    true
                }
                (Target::Workload(id), knob) => self.set_on_workload(id, &knob, &mut dirty)?,
                (Target::Thread(thread), knob) => self.set_on_thread(thread, &knob, &mut dirty)?,
                (target, knob) => return Err(misplaced(&target, &knob)),
            });
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

    /// Takes a value over; false if the workload is gone. The workload is dirty only if the value is new: what somebody
    /// else changed since is not fought over.
    fn set_on_workload(
        &mut self,
        id: WorkloadId,
        knob: &Knob,
        dirty: &mut Vec<WorkloadId>,
    ) -> Result<bool, LinuxError> {
        if self.managed(id).is_none() {
            return Ok(false);
        }
        if *knob == Knob::Partition(true) {
            let what = "a CPU partition moves everything else on the machine away";
            check_allowed(self.options.partitions, what, "machine.partition")?;
        }
        let mut news = false;
        for (_, own) in self.overrides.values_mut().filter(|(owner, _)| *owner == id) {
            let before = *own;
            own.clear(knob.kind());
            news |= *own != before;
        }
        let managed = self.managed_mut(id)?;
        let before = managed.standing;
        if !managed.standing.set(knob) {
            return Err(misplaced(&Target::Workload(id), knob));
        }
        if news || managed.standing != before {
            dirty.push(id);
        }
        Ok(true)
    }

    /// The same for one thread of a workload; false if it is gone, or belongs to none.
    fn set_on_thread(&mut self, id: ThreadId, knob: &Knob, dirty: &mut Vec<WorkloadId>) -> Result<bool, LinuxError> {
        if matches!(knob, Knob::Partition(_) | Knob::Quota(_) | Knob::Pause(_)) {
            return Err(misplaced(&Target::Thread(id), knob));
        }
        let known = self.threads.binary_search_by_key(&id.tid, |thread| thread.id.tid).ok();
        let Some(thread) = known.map(|at| &self.threads[at]).filter(|thread| thread.id == id) else { return Ok(false) };
        let (owner, own) = self.overrides.entry(id).or_insert((thread.workload, Wanted::default()));
        let before = *own;
        if !own.set(knob) {
            return Err(misplaced(&Target::Thread(id), knob));
        }
        if *own != before {
            dirty.push(*owner);
        }
        Ok(true)
    }

    /// The writes that make these workloads' values true.
    pub(super) fn compile(
        &mut self,
        dirty: &[WorkloadId],
        preemption: Option<quell_model::PreemptionMode>,
    ) -> Result<Vec<Write>, LinuxError> {
        let none = crate::members::Resolved::default();
        let subjects: Vec<Subject<'_>> = dirty
            .iter()
            .filter_map(|&id| {
                let managed = self.slots.get(id.index())?.as_ref()?;
                Some(managed.subject(id, super::resolved(&self.selectors, id).unwrap_or(&none), &self.solo))
            })
            .collect();
        let mut compiler = Compiler::new(&mut *self.medium, &self.ledger, self.online, &self.roots.cgroup);
        if let Some(mode) = preemption {
            compiler.preemption(&self.roots.sys, mode)?;
        }
        compiler.compile(&subjects, &self.threads, &self.overrides)?;
        Ok(compiler.finish())
    }

    /// Makes writes, all or none, and remembers them.
    pub(super) fn make(&mut self, writes: &[Write]) -> Result<(), LinuxError> {
        let made = write::carry_out(&mut *self.medium, &mut *self.journal, writes)?;
        for (write, _) in writes.iter().zip(made).filter(|(_, written)| *written == Written::Done) {
            self.ledger.note(write);
            let managed = write.workload.and_then(|id| self.slots.get_mut(id.index())?.as_mut());
            if let Some(managed) = managed {
                managed.history.note(write);
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

fn misplaced(target: &Target, knob: &Knob) -> LinuxError {
    let what = match target {
        Target::Workload(_) => "a workload",
        Target::Thread(_) => "a single thread",
        Target::Cpu(_) => "a single CPU",
        Target::Machine => "the machine",
    };
    LinuxError::unsupported(format!("the knob '{}' cannot be set on {what}", knob.kind().name()), "see Target")
}

/// Machine-wide knobs need the configuration's leave.
fn check_allowed(allowed: bool, what: &str, key: &str) -> Result<(), LinuxError> {
    match allowed {
        true => Ok(()),
        false => Err(LinuxError::Forbidden(format!("{what}; allow it with {key} = true in the configuration"))),
    }
}
