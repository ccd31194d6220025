//! CPU sets and partitions: cpuset.cpus, cpuset.cpus.partition, and a thread's affinity.

use quell_model::{Capabilities, CpuSet, Knob, KnobKind, KnobSetting, Support, Target};

use super::{Actuator, On};
use crate::contention::MeasuredOfMemory;
use crate::host::members::Member;
use crate::kernel::Partition;

pub(super) struct Cpusets;

impl Actuator for Cpusets {
    fn report(&self, _: MeasuredOfMemory, found: &mut Capabilities) {
        found.knobs.extend([(KnobKind::Cpus, Support::Yes), (KnobKind::Partition, Support::Yes)]);
    }

    fn set(&self, setting: &KnobSetting, on: &mut On<'_>) {
        match (setting.target, setting.knob) {
            (Target::Workload(id), Knob::Cpus(cpus)) => {
                let (threads, kernel) = on.threads(setting.target);
                threads.into_iter().for_each(|task| kernel.set_affinity(task, None));
                on.members.get_mut(id).into_iter().for_each(|member| member.cpus = Some(cpus));
                self.fit(on);
            }
            (Target::Workload(id), Knob::Partition(partition)) => {
                let partition = if partition { Partition::Root } else { Partition::Member };
                on.members.get_mut(id).into_iter().for_each(|member| member.partition = partition);
                self.fit(on);
            }
            (Target::Thread(_), Knob::Cpus(cpus)) => {
                let (threads, kernel) = on.threads(setting.target);
                threads.into_iter().for_each(|task| kernel.set_affinity(task, Some(cpus)));
            }
            _ => {}
        }
    }

    /// Gives every workload its CPUs: those that were set, or all, without those of others' partitions; to one that runs
    /// alone with its isolations lifted those of its lease, or that it had before any policy.
    fn fit(&self, on: &mut On<'_>) {
        let lifting = |id| on.leases.iter().find(|lease| lease.lift_isolations && lease.solo == id);
        let some_lifted = on.leases.iter().any(|lease| lease.lift_isolations);
        for (id, member) in on.members.each() {
            let is_partition = |member: &Member| member.partition != Partition::Member;
            let others = on.members.each().filter(|&(other, member)| other != id && is_partition(member));
            let taken = others.fold(CpuSet::EMPTY, |taken, (_, other)| taken.union(&other.cpus.unwrap_or_default()));
            let cpus = match member.cpus {
                _ if lifting(id).is_some() => lifting(id).and_then(|lease| lease.on).or(member.own_cpus),
                None if taken.is_empty() => None,
                wanted => Some(wanted.unwrap_or(on.sim.kernel.masks.online).difference(&taken)),
            };
            let group = on.sim.tenants[id.index()].group;
            // While one runs alone, no CPUs are another's own.
            let partition = if some_lifted { Partition::Member } else { member.partition };
            on.sim.kernel.set_cpus(group, cpus);
            on.sim.kernel.set_partition(group, partition);
        }
    }
}
