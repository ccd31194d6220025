//! Threads that are alone in a threaded cgroup: libvirt makes one for each vCPU. Such a thread competes by its group's
//! `cpu.weight`; its nice value does nothing, as it has no rival in the group.

use std::path::{Component, Path, PathBuf};

use super::{Aim, Draft};
use crate::members::Thread;
use crate::{LinuxError, Roots, file};

/// The `cpu.weight` of the thread's own group, if it is alone in one that has the cpu controller. A thread or group that is gone
/// has none.
pub(super) fn weight_of_group(roots: &Roots, thread: &Thread) -> Option<PathBuf> {
    let text = |path: &Path| file::read(path).ok().flatten();
    let membership = text(&roots.proc.join(format!("{}/task/{}/cgroup", thread.pid, thread.id.tid)))?;
    let below = Path::new(membership.lines().find_map(|line| line.strip_prefix("0::"))?);
    // Outside of this cgroup namespace the path leads upwards.
    if below.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let group = roots.cgroup.join(below.strip_prefix("/").unwrap_or(below));
    let is_alone = text(&group.join("cgroup.type"))? == "threaded"
        && text(&group.join("cgroup.threads"))? == thread.id.tid.to_string();
    let weight = group.join("cpu.weight");
    (is_alone && weight.exists()).then_some(weight)
}

/// The weights that policies want of such threads. One that is wanted no more is put back.
pub(super) fn weights(aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
    for (thread, subject) in aim.threads() {
        let Some((_, own)) = aim.overrides.get(&thread.id) else { continue };
        if let Some(path) = draft.own_weight(thread) {
            draft.want(subject, &path, own.weight.map(|weight| weight.to_string()))?;
        }
    }
    Ok(())
}
