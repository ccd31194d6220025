//! Programs that cooperate: whose they are, and their pages.

use std::path::Path;

use quell_model::{ThreadId, WorkloadId};

use super::LinuxHost;
use crate::clock;
use crate::pages::Pages;
use crate::sensors::Exporting;

impl LinuxHost {
    /// The workload of a process: by the last scan; if it was not there then, by its cgroup, as /proc/PID/cgroup has it, or else by
    /// its parent. The next scans find out whether it is so.
    #[must_use]
    pub fn owner_of(&self, process: ThreadId, parent: i32, cgroup: Option<&Path>) -> Option<(WorkloadId, &str)> {
        let members = &self.members;
        let by_cgroup = || {
            let path = cgroup?;
            let path = members.roots.cgroup.join(path.strip_prefix("/").unwrap_or(path));
            let groups = members.selectors.iter().flat_map(|(id, of)| of.group_paths().map(move |group| (group, *id)));
            let around = groups.filter(|(group, _)| path.starts_with(group));
            around.max_by_key(|(group, _)| group.components().count()).map(|(_, id)| id)
        };
        let id = match members.thread(process.tid).filter(|thread| thread.id == process) {
            Some(thread) => Some(thread.workload),
            None => by_cgroup().or_else(|| members.thread(parent).map(|parent| parent.workload)),
        };
        Some((id?, members.get(id?)?.spec.name.as_str()))
    }

    /// Reads these pages of a process of this workload from now on; the number is the caller's.
    pub fn take_program(&mut self, number: u64, id: WorkloadId, process: ThreadId, pages: Pages) {
        self.sensors.exported.take(number, id, process, pages, clock::now());
    }

    /// Reads a program's pages no more.
    pub fn let_program_go(&mut self, number: u64) {
        self.sensors.exported.let_go(number);
    }

    /// The programs whose processes ended or left their workload since the last call, by number: their pages are read no more.
    pub fn ended_programs(&mut self) -> impl Iterator<Item = u64> {
        self.sensors.exported.ended()
    }

    /// What the programs of a workload export.
    #[must_use]
    pub fn exporting(&self, id: WorkloadId) -> Exporting {
        self.sensors.exported.exporting(id)
    }
}
