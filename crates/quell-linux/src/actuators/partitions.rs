//! CPU partitions.

use std::path::{Path, PathBuf};

use quell_model::{Capabilities, CpuSet, KnobKind, foreign};

use super::{Actuator, Aim, Draft, Here, NO_CGROUP, Subject, forbidden};
use crate::LinuxError;
use crate::members::Level;
use crate::write::{Place, Value};

/// `cpuset.cpus.partition` and `cpuset.cpus.exclusive`.
pub(super) struct Partitions;

impl Actuator for Partitions {
    fn report(&self, here: &Here<'_>, found: &mut Capabilities) {
        let support = match here.options.partitions {
            true => here.only_cgroup("a partition is made of cgroups"),
            false => forbidden("it moves unmanaged work away", "machine.partition"),
        };
        found.knobs.insert(KnobKind::Partition, support);
    }

    fn check(&self, subject: &Subject<'_>) -> Result<(), LinuxError> {
        let is_wanted = subject.wanted.partition == Some(true);
        if is_wanted && subject.level == Level::Threads {
            let what = format!("workload '{}': single threads cannot be a CPU partition", subject.name);
            return Err(LinuxError::unsupported(what, NO_CGROUP));
        }
        subject.refuse_several_groups(is_wanted)
    }

    /// Partitions that are not wanted any more, or whose CPUs change, become ordinary members first.
    fn release(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        for (subject, group) in aim.groups() {
            let path = group.join("cpuset.cpus.partition");
            if draft.ledger.touched(&Place::File(path.clone())).is_none() {
                continue;
            }
            let Some(now) = draft.text(&group.join("cpuset.cpus"))? else { continue };
            let moves = match &subject.wanted.cpus {
                Some(cpus) => draft.fitting(subject, cpus)?.to_string() != now,
                None => false,
            };
            if subject.wanted.partition == Some(true) && !moves {
                continue;
            }
            let ends = subject.wanted.partition != Some(true);
            draft.want(subject, &path, if ends { None } else { Some("member".into()) })?;
            release_exclusive(draft, subject, group)?;
        }
        Ok(())
    }

    /// Partitions get their CPUs, which by now belong to no other workload, from the top of the hierarchy down.
    fn claim(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        for (subject, group) in aim.groups().filter(|(subject, _)| subject.wanted.partition == Some(true)) {
            let own = group.join("cpuset.cpus");
            let Some(cpus) = draft.text(&own)? else { continue };
            let cpus: CpuSet = cpus.parse()?;
            if cpus.is_empty() {
                let what = format!("{} is empty: a partition needs CPUs of its own", foreign::path(&own));
                return Err(LinuxError::unsupported(what, "set the workload's CPUs with the same plan"));
            }
            for ancestor in ancestors(draft, group).into_iter().chain([group.to_owned()]) {
                let exclusive = ancestor.join("cpuset.cpus.exclusive");
                let Some(now) = draft.text(&exclusive)? else {
                    if ancestor == *group {
                        break;
                    }
                    let what = format!(
                        "{} is not there: only children of the root can be partitions",
                        foreign::path(&exclusive)
                    );
                    return Err(LinuxError::unsupported(what, "use a kernel from 6.7 on"));
                };
                let all = now.parse::<CpuSet>()?.union(&cpus);
                let value = if ancestor == *group { cpus } else { all };
                draft.set(Some(subject.id), Place::File(exclusive), Value::Text(value.to_string()))?;
            }
            // Not `isolated`: without load balancing the threads of one owner would pile up on one of its CPUs.
            draft.want(subject, &group.join("cpuset.cpus.partition"), Some("root".into()))?;
        }
        Ok(())
    }
}

fn release_exclusive(draft: &mut Draft<'_>, subject: &Subject<'_>, group: &Path) -> Result<(), LinuxError> {
    let exclusive = group.join("cpuset.cpus.exclusive");
    let Some(held) = draft.text(&exclusive)? else { return Ok(()) };
    let held: CpuSet = held.parse()?;
    draft.want(subject, &exclusive, None)?;
    for ancestor in ancestors(draft, group).into_iter().rev() {
        let path = ancestor.join("cpuset.cpus.exclusive");
        let place = Place::File(path.clone());
        if let (Some(now), Some(Value::Text(origin))) = (draft.text(&path)?, draft.ledger.origin(&place).cloned()) {
            let left = now.parse::<CpuSet>()?.difference(&held).union(&origin.parse()?);
            draft.set(Some(subject.id), place, Value::Text(left.to_string()))?;
        }
    }
    Ok(())
}

/// The cgroups above this one, without the root, from the top down.
fn ancestors(draft: &Draft<'_>, group: &Path) -> Vec<PathBuf> {
    let above =
        group.ancestors().skip(1).take_while(|path| *path != draft.cgroup_root && path.starts_with(draft.cgroup_root));
    let mut above: Vec<PathBuf> = above.map(Path::to_owned).collect();
    above.reverse();
    above
}
