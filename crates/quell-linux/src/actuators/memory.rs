//! Memory nodes of cgroups.

use std::path::Path;

use quell_model::{Capabilities, KnobKind, NodeSet, Support};

use super::{Actuator, Aim, Draft, Here, NO_CGROUP, Subject};
use crate::members::Level;
use crate::{LinuxError, file, sysfs};

/// `cpuset.mems`: memory elsewhere is moved (cgroup v2).
pub(super) struct Memory;

impl Actuator for Memory {
    fn report(&self, here: &Here<'_>, found: &mut Capabilities) {
        let nodes = sysfs::memory_nodes(&here.roots.sys).unwrap_or_default().len();
        let support = match nodes {
            0 | 1 => Support::No {
                why: "the machine has one memory node".into(),
                fix: "leave policies out that need more".into(),
            },
            _ => here.only_cgroup("memory nodes are set on cgroups (cpuset.mems)"),
        };
        found.knobs.insert(KnobKind::MemoryNodes, support);
    }

    fn check(&self, subject: &Subject<'_>) -> Result<(), LinuxError> {
        if subject.wanted.nodes.is_some() && subject.level == Level::Threads {
            let what = format!("workload '{}': single threads have no memory nodes", subject.name);
            return Err(LinuxError::unsupported(what, NO_CGROUP));
        }
        Ok(())
    }

    fn set(&self, aim: &Aim<'_>, draft: &mut Draft<'_>) -> Result<(), LinuxError> {
        for (subject, group) in aim.groups() {
            let path = group.join("cpuset.mems");
            let wanted = subject.wanted.nodes.map(|nodes| nodes.to_string());
            if let Some(nodes) = subject.wanted.nodes
                && draft.text(&path)?.as_deref() != wanted.as_deref()
            {
                has_room(draft, subject, resident(aim, draft, subject, group)?, nodes)?;
            }
            draft.want(subject, &path, wanted)?;
        }
        Ok(())
    }
}

/// What a cgroup has in memory, bytes: as it says itself, or else the sum over the workload's processes (shared pages count
/// for each, so that it is never too little).
fn resident(aim: &Aim<'_>, draft: &Draft<'_>, subject: &Subject<'_>, group: &Path) -> Result<u64, LinuxError> {
    if let Some(bytes) = file::parse(&group.join("memory.current"), "bytes")? {
        return Ok(bytes);
    }
    let mut sum = 0;
    for (process, _) in aim.threads().filter(|(thread, of)| of.id == subject.id && thread.is_first()) {
        let status = draft.roots.proc.join(process.pid.to_string()).join("status");
        let text = file::read(&status)?.unwrap_or_default();
        let kib =
            text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
        sum += kib.unwrap_or(0) * 1024;
    }
    Ok(sum)
}

/// Where the nodes have no room for what is resident, the kernel would kill it.
fn has_room(draft: &Draft<'_>, subject: &Subject<'_>, resident: u64, nodes: NodeSet) -> Result<(), LinuxError> {
    let mut free = 0;
    for node in nodes.iter() {
        match sysfs::free_memory(draft.sys_root, node)? {
            Some(bytes) => free += bytes,
            None => return Ok(()),
        }
    }
    // A tenth more, for what it takes meanwhile.
    if free < resident / 10 * 11 {
        let what = format!(
            "workload '{}' has {} MiB resident, and its memory nodes {nodes} have {} MiB free",
            subject.name,
            resident >> 20,
            free >> 20
        );
        return Err(LinuxError::unsupported(what, "choose other nodes, or free a tenth more than it has"));
    }
    Ok(())
}
