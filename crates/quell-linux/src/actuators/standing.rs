//! Values of workloads and threads that hold until a policy changes them.

use std::collections::HashMap;

use quell_model::{CpuId, Knob, KnobKind, KnobSetting, Lease, LeaseLimits, Target, TargetKind, ThreadId, WorkloadId};

use super::Subject;
use super::solo::Solo;
use super::wanted::{Overrides, Wanted, check};
use crate::LinuxError;
use crate::limit::LimitState;
use crate::members::Members;

/// Target state of the workloads, from any source.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Policies.
    pub values: Values,
    /// The workloads' owners, by slot: is a limit kept? None: there is none, or everything was put back.
    pub limits: Vec<Option<LimitState>>,
    /// A solo run.
    pub solo: Solo,
}

impl Standing {
    pub fn new(solo: LeaseLimits) -> Standing {
        Standing { values: Values::default(), limits: Vec::new(), solo: Solo::new(solo) }
    }

    /// A workload's target state now; None if there is none.
    pub fn subject<'a>(&self, id: WorkloadId, members: &'a Members) -> Option<Subject<'a>> {
        let (member, resolved) = (members.get(id)?, members.resolved(id)?);
        let keeps = matches!(self.limits.get(id.index()), Some(Some(LimitState::Kept(_))));
        Some(Subject {
            id,
            name: &member.spec.name,
            level: member.level,
            resolved,
            wanted: self.solo.wanted(id, &member.spec, self.values.of(id), &members.online),
            limit: member.spec.limit.filter(|_| keeps),
        })
    }
}

impl Standing {
    /// The highest frequency of each CPU that a policy has set; None while a solo run lifts it.
    pub fn frequencies(&self) -> HashMap<CpuId, Option<u32>> {
        let lifted = |cpu| self.solo.leases().any(|lease| lease.lifts_cpu(cpu));
        self.values.khz.iter().map(|(&cpu, &khz)| (cpu, Some(khz).filter(|_| !lifted(cpu)))).collect()
    }

    /// The GPU's highest frequency that a policy has set; None within while a solo run on the whole machine lifts it.
    pub fn gpu_khz(&self) -> Option<Option<u32>> {
        let is_lifted = self.solo.leases().any(|lease| lease.lift_isolations && lease.within.is_none());
        self.values.gpu_khz.map(|khz| Some(khz).filter(|_| !is_lifted))
    }

    /// Would a solo run pause this workload, on the CPUs that it has now?
    pub fn would_pause(&self, lease: &Lease, id: WorkloadId, members: &Members) -> bool {
        let cpus = self.values.of(id).cpus.unwrap_or(members.online);
        members.get(id).is_some_and(|member| lease.pauses(id, &member.spec, &cpus))
    }

    /// The wanted values of all workloads, and whether each is latency-critical.
    pub fn everyone(&self, members: &Members) -> Vec<(bool, Wanted)> {
        let all = members.workloads();
        all.map(|(id, spec)| (spec.is_lc(), self.solo.wanted(id, spec, self.values.of(id), &members.online))).collect()
    }
}

/// The values that policies set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// By slot.
    workloads: Vec<Wanted>,
    pub overrides: Overrides,
    /// Highest frequencies, by CPU.
    pub khz: HashMap<CpuId, u32>,
    /// The GPU's highest frequency.
    pub gpu_khz: Option<u32>,
}

impl Values {
    /// A workload's standing values.
    pub fn of(&self, id: WorkloadId) -> Wanted {
        self.workloads.get(id.index()).copied().unwrap_or_default()
    }

    /// Drops the values of a workload, or of all.
    pub fn clear(&mut self, only: Option<WorkloadId>) {
        match only {
            Some(id) => {
                self.workloads.iter_mut().skip(id.index()).take(1).for_each(|wanted| *wanted = Wanted::default())
            }
            None => {
                self.workloads.clear();
                self.khz.clear();
                self.gpu_khz = None;
            }
        }
        self.overrides.retain(|_, (owner, _)| only.is_some_and(|only| only != *owner));
    }

    /// A thread's class is its own again; whose values are to be made true for that.
    pub fn release_class(&mut self, thread: ThreadId) -> Option<WorkloadId> {
        let (owner, own) = self.overrides.get_mut(&thread)?;
        own.clear(KnobKind::Class);
        Some(*owner)
    }

    pub fn forget_thread(&mut self, thread: ThreadId) {
        self.overrides.remove(&thread);
    }

    /// Adopts a value; false if its target is gone. A workload is dirty only if the value is new: a value that another
    /// program changed since is left.
    ///
    /// # Errors
    /// If the value makes no sense, is not of this kind of target, or the configuration does not allow it.
    pub fn take(
        &mut self,
        setting: &KnobSetting,
        members: &Members,
        dirty: &mut Vec<WorkloadId>,
    ) -> Result<bool, LinuxError> {
        check(&setting.knob, &members.online)?;
        match (setting.target, setting.knob) {
            (Target::Machine, Knob::Preemption(_)) => {
                let allowed = members.options.preemption_mode;
                check_allowed(allowed, "the preemption mode affects the whole machine", "machine.preemption")?;
                Ok(true)
            }
            (Target::Machine, Knob::GpuFrequencyKhz(khz)) => {
                let allowed = members.options.gpu;
                check_allowed(allowed, "the GPU's frequency affects all programs that use it", "machine.gpu")?;
                self.gpu_khz = Some(khz);
                Ok(true)
            }
            (Target::Cpu(cpu), Knob::MaxFrequencyKhz(khz)) => {
                let is_there = members.topology.cpu(cpu).is_some();
                if is_there {
                    self.khz.insert(cpu, khz);
                }
                Ok(is_there)
            }
            (Target::Workload(id), knob) => self.set_on_workload(id, &knob, members, dirty),
            (Target::Thread(thread), knob) => self.set_on_thread(thread, &knob, members, dirty),
            (target, knob) => Err(misplaced(&target, &knob)),
        }
    }

    fn set_on_workload(
        &mut self,
        id: WorkloadId,
        knob: &Knob,
        members: &Members,
        dirty: &mut Vec<WorkloadId>,
    ) -> Result<bool, LinuxError> {
        if members.get(id).is_none() {
            return Ok(false);
        }
        if *knob == Knob::Partition(true) {
            let what = "a CPU partition moves everything else on the machine away";
            check_allowed(members.options.partitions, what, "machine.partition")?;
        }
        let mut news = false;
        for (_, own) in self.overrides.values_mut().filter(|(owner, _)| *owner == id) {
            let before = *own;
            own.clear(knob.kind());
            news |= *own != before;
        }
        if self.workloads.len() <= id.index() {
            self.workloads.resize(id.index() + 1, Wanted::default());
        }
        let standing = &mut self.workloads[id.index()];
        let before = *standing;
        if !standing.set(knob) {
            return Err(misplaced(&Target::Workload(id), knob));
        }
        if news || *standing != before {
            dirty.push(id);
        }
        Ok(true)
    }

    /// The same for one thread of a workload; false if it is gone, or belongs to none.
    fn set_on_thread(
        &mut self,
        id: ThreadId,
        knob: &Knob,
        members: &Members,
        dirty: &mut Vec<WorkloadId>,
    ) -> Result<bool, LinuxError> {
        if matches!(knob, Knob::Pause(_)) || !knob.kind().info().on.contains(&TargetKind::Thread) {
            return Err(misplaced(&Target::Thread(id), knob));
        }
        let Some(thread) = members.thread(id.tid).filter(|thread| thread.id == id) else { return Ok(false) };
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
}

fn misplaced(target: &Target, knob: &Knob) -> LinuxError {
    let kind = knob.kind();
    let of: Vec<&str> = kind.info().on.iter().map(|target| target.name()).collect();
    let what = format!("the knob '{}' cannot be set on a single {}", kind.name(), target.kind().name());
    LinuxError::unsupported(what, format!("set it on a {}", of.join(" or ")))
}

/// Machine-wide knobs need the configuration's leave.
fn check_allowed(allowed: bool, what: &str, key: &str) -> Result<(), LinuxError> {
    match allowed {
        true => Ok(()),
        false => Err(LinuxError::Forbidden(format!("{what}; allow it with {key} = true in the configuration"))),
    }
}
