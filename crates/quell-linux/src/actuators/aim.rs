//! Target state after a plan, or after a change of workloads.

use std::collections::HashMap;
use std::path::PathBuf;

use quell_model::{CpuCount, CpuId, PreemptionMode, WorkloadId};

use super::wanted::{Overrides, Wanted};
use crate::LinuxError;
use crate::members::{Level, Resolved, Thread};

/// One workload whose values are to be made true.
pub(crate) struct Subject<'a> {
    pub id: WorkloadId,
    pub name: &'a str,
    pub level: Level,
    pub resolved: &'a Resolved,
    pub wanted: Wanted,
    /// Its limit, where it can be kept.
    pub limit: Option<CpuCount>,
}

impl Subject<'_> {
    /// Refuses a knob that several cgroups cannot share, if it is wanted.
    pub fn refuse_several_groups(&self, is_wanted: bool) -> Result<(), LinuxError> {
        if !is_wanted || self.resolved.groups.len() <= 1 {
            return Ok(());
        }
        let what = format!("workload '{}' has several cgroups, which cannot share a quota or a partition", self.name);
        Err(LinuxError::unsupported(what, "put them below one slice and select that"))
    }
}

/// All that is to be made true at once.
pub(crate) struct Aim<'a> {
    /// Ascending.
    pub workloads: Vec<Subject<'a>>,
    /// Those of all workloads, ascending.
    pub threads: &'a [Thread],
    pub overrides: &'a Overrides,
    /// What is to be set on the machine.
    pub preemption: Option<PreemptionMode>,
    /// Highest frequencies, if they are to be set; None: as before Quell.
    pub frequencies: Option<&'a HashMap<CpuId, Option<u32>>>,
    /// Highest frequency of the GPU, if it is to be set; None within: as before Quell.
    pub gpu_khz: Option<Option<u32>>,
    /// The wanted values of all workloads, and whether each is latency-critical.
    pub everyone: Vec<(bool, Wanted)>,
}

impl Aim<'_> {
    /// The workloads that have cgroups with controllers.
    pub fn with_groups(&self) -> impl Iterator<Item = &Subject<'_>> {
        self.workloads.iter().filter(|subject| subject.level == Level::Cgroup)
    }

    /// Their cgroups.
    pub fn groups(&self) -> impl Iterator<Item = (&Subject<'_>, &PathBuf)> {
        self.with_groups().flat_map(|subject| subject.resolved.group_paths().map(move |path| (subject, path)))
    }

    /// The threads of the workloads, each with its workload.
    pub fn threads(&self) -> impl Iterator<Item = (&Thread, &Subject<'_>)> {
        self.threads.iter().filter_map(|thread| {
            let at = self.workloads.binary_search_by_key(&thread.workload, |subject| subject.id).ok()?;
            Some((thread, &self.workloads[at]))
        })
    }

    /// A thread's wanted values beyond those of its cgroup.
    pub fn wanted(&self, thread: &Thread, subject: &Subject<'_>) -> Wanted {
        let workload = match subject.level {
            Level::Threads => subject.wanted,
            Level::Cgroup => subject.wanted.beside_cgroup(),
        };
        self.overrides.get(&thread.id).map_or(workload, |(_, own)| own.over(&workload))
    }
}
