//! Which workloads used no CPU time since the last look: none of their threads can have other times than then.

use std::collections::BTreeMap;
use std::path::PathBuf;

use quell_model::{Nanos, WorkloadId};

use super::of_slot;
use crate::LinuxError;
use crate::cgroup::{self, UsageFile};
use crate::members::{Members, Resolved};

/// With fewer threads the threads themselves are read.
const FROM_THREADS: u32 = 2;

/// What their cgroups counted at the last look.
#[derive(Debug)]
pub(super) struct Quiet {
    /// By slot.
    seen: Vec<Seen>,
    /// Number of files that may stay open.
    may_stay_open: usize,
    /// Has a workload other cgroups than at the last look?
    is_changed: bool,
}

#[derive(Debug, Default)]
struct Seen {
    /// By cgroup.
    files: Vec<UsageFile>,
    /// What they counted at the last look. None: it was not looked at.
    used: Option<Nanos>,
    is_quiet: bool,
    /// What they counted since the first look at these cgroups: what a new one had used before is no one's.
    grown: Nanos,
    /// Do its cgroups hold one of another workload, whose time they count, too?
    holds_others: bool,
}

impl Default for Quiet {
    fn default() -> Quiet {
        Quiet { seen: Vec::new(), may_stay_open: cgroup::most_open_files() / 4, is_changed: true }
    }
}

impl Quiet {
    /// This workload's cgroups are others now.
    pub fn forget(&mut self, id: WorkloadId) {
        let grown = of_slot(&mut self.seen, id).grown;
        *of_slot(&mut self.seen, id) = Seen { grown, ..Seen::default() };
        self.is_changed = true;
    }

    /// Looks at the workloads whose threads all sit in their cgroups, of those that are asked for. Where some workload is
    /// selected by its processes, a thread's workload may be another one than that of its cgroup: none is quiet.
    pub fn look(&mut self, members: &Members, is_asked: impl Fn(WorkloadId) -> bool) -> Result<(), LinuxError> {
        let by_cgroup = !members.selectors.iter().any(|(_, resolved)| resolved.selects_processes());
        if std::mem::take(&mut self.is_changed) {
            self.find_nested(members);
        }
        let mut may_stay_open = self.may_stay_open;
        for (id, resolved) in &members.selectors {
            let seen = of_slot(&mut self.seen, *id);
            let many = members.get(*id).is_some_and(|member| member.threads >= FROM_THREADS);
            if !by_cgroup || !many || !is_asked(*id) {
                (seen.used, seen.is_quiet) = (None, false);
                continue;
            }
            let used = seen.read(resolved, &mut may_stay_open)?;
            seen.is_quiet = used.is_some() && used == seen.used;
            if let (Some(used), Some(before)) = (used, seen.used) {
                seen.grown += used - before;
            }
            seen.used = used;
        }
        Ok(())
    }

    /// CPU time that its cgroups have used since an arbitrary start, for it alone; None if that is not known.
    pub fn used(&self, id: WorkloadId) -> Option<Nanos> {
        let seen = self.seen.get(id.index())?;
        (seen.used.is_some() && !seen.holds_others).then_some(seen.grown)
    }

    /// Finds the workloads whose cgroups hold another one's.
    fn find_nested(&mut self, members: &Members) {
        let groups = |resolved: &Resolved| resolved.groups.iter().map(|group| group.path.clone()).collect::<Vec<_>>();
        let all: BTreeMap<PathBuf, WorkloadId> = (members.selectors.iter())
            .flat_map(|(id, resolved)| groups(resolved).into_iter().map(|path| (path, *id)))
            .collect();
        for (id, resolved) in &members.selectors {
            let holds = |path: &PathBuf| {
                let below = all.range(path.clone()..).take_while(|(other, _)| other.starts_with(path));
                below.into_iter().any(|(_, other)| other != id)
            };
            of_slot(&mut self.seen, *id).holds_others = groups(resolved).iter().any(holds);
        }
    }

    /// Had it used nothing at the last look?
    pub fn is_quiet(&self, id: WorkloadId) -> bool {
        self.seen.get(id.index()).is_some_and(|seen| seen.is_quiet)
    }
}

impl Seen {
    /// CPU time that the cgroups used; None if one is gone.
    fn read(&mut self, resolved: &Resolved, may_stay_open: &mut usize) -> Result<Option<Nanos>, LinuxError> {
        self.files.resize_with(resolved.groups.len(), UsageFile::default);
        let mut sum = Some(Nanos::ZERO);
        for (file, group) in self.files.iter_mut().zip(&resolved.groups) {
            let used = file.read(&group.path)?;
            sum = sum.zip(used).map(|(sum, used)| sum + used);
            if *may_stay_open > 0 {
                *may_stay_open -= 1;
            } else {
                file.close();
            }
        }
        Ok(sum)
    }
}
