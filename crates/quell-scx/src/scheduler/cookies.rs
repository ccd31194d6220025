//! Workloads with threads that are scheduled by cores: none of them gets a CPU, since the kernel leaves CPUs idle beside such a thread
//! that a grant counts on. A cookie of no workload changes nothing but what the kernel leaves idle for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quell_linux::cgroup::Tree;
use quell_linux::procfs::ProcFs;
use quell_linux::sched::{Cookied, all_cookied};
use quell_model::{Nanos, Refusal, Verdict, Workload, WorkloadId};

use super::Scx;
use crate::ScxError;

/// The threads are looked for so often: it takes a system call a thread.
const LOOK_AGAIN: Nanos = Nanos::from_secs(1);
/// And no more often than that it takes one in this many of a CPU's time.
const LOOKS_SHARE: u64 = 50;
/// Threads of which the cgroup is read; those beyond are found when these have no cookie any more.
const MOST: usize = 1_000;

/// The workloads that have no CPUs because of it.
#[derive(Default)]
pub(super) struct Cookies {
    refused: BTreeMap<WorkloadId, Refused>,
    /// When threads are looked for next.
    next_at: Nanos,
}

struct Refused {
    spec: Workload,
    /// The first thread with a cookie.
    thread: Cookied,
}

impl Refused {
    fn line(&self) -> String {
        let Cookied { pid, tid, .. } = self.thread;
        format!(
            "workload '{}': thread {tid} of process {pid} is scheduled by cores (core scheduling), and the kernel would leave granted \
             CPUs idle: it gets none, and its threads run as those of no workload; start it without cookies (prctl PR_SCHED_CORE, \
             coresched)",
            self.spec.name
        )
    }
}

impl Cookies {
    /// One line a workload.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.refused.values().map(Refused::line)
    }

    /// What a command for this workload comes to, if it is refused.
    pub fn verdict(&self, id: WorkloadId) -> Option<Verdict> {
        self.refused.get(&id).map(|refused| Verdict::Refused(Refusal::System(refused.line())))
    }

    /// The workload is described anew. Was it refused?
    pub fn describe(&mut self, id: WorkloadId, workload: &Workload) -> bool {
        self.refused.get_mut(&id).map(|refused| refused.spec = workload.clone()).is_some()
    }

    /// The workload is gone.
    pub fn forget(&mut self, id: WorkloadId) {
        self.refused.remove(&id);
    }
}

impl Scx {
    /// Now and then, if the kernel schedules by cores: refuses the workloads that have a thread with a cookie, and takes those back
    /// that have none any more.
    pub(super) fn look_for_cookies(&mut self) -> Result<(), ScxError> {
        let (now, on) = (quell_linux::now(), self.grant.beside.is_core_scheduled());
        if now < self.cookies.next_at || (!on && self.cookies.refused.is_empty()) {
            return Ok(());
        }
        let began = quell_linux::cpu_time();
        let found = if on { self.cookied_workloads() } else { BTreeMap::new() };
        let cost = quell_linux::cpu_time() - began;
        self.cookies.next_at = now + LOOK_AGAIN.max(Nanos(cost.0 * LOOKS_SHARE));
        let back: Vec<_> = self.cookies.refused.keys().copied().filter(|id| !found.contains_key(id)).collect();
        for id in back {
            if let Some(Refused { spec, .. }) = self.cookies.refused.remove(&id) {
                tracing::info!(
                    workload = spec.name,
                    "no thread of it is scheduled by cores any more: it gets CPUs again"
                );
                self.enter(id, spec)?;
            }
        }
        for (id, thread) in found {
            let Some(Some(attached)) = self.slots.get(id.index()) else { continue };
            let refused = Refused { spec: attached.spec.clone(), thread };
            self.take_servers(id)?;
            self.leave(id)?;
            // The log has it as a warning of the agent.
            self.cookies.refused.insert(id, refused);
        }
        Ok(())
    }

    /// The workloads that have a thread with a cookie, and the first one of each. Of what cannot be read none is known.
    fn cookied_workloads(&self) -> BTreeMap<WorkloadId, Cookied> {
        let threads = ProcFs::open(&self.roots.proc).and_then(|mut proc| all_cookied(&mut proc, MOST));
        let threads = threads.unwrap_or_default();
        if threads.is_empty() {
            return BTreeMap::new();
        }
        let groups = self.groups();
        let mut found = BTreeMap::new();
        for thread in threads {
            if let Some(id) = cgroup_of(&self.roots.proc, thread).and_then(|below| owner_of(&groups, &below)) {
                found.entry(id).or_insert(thread);
            }
        }
        found
    }

    /// The cgroups of all workloads, below the root's.
    fn groups(&self) -> Vec<(PathBuf, WorkloadId)> {
        let tree = Tree::at(&self.roots.cgroup);
        let attached = self.slots.iter().enumerate();
        let attached = attached.filter_map(|(slot, it)| Some((WorkloadId(slot as u32), &it.as_ref()?.spec)));
        let refused = self.cookies.refused.iter().map(|(&id, refused)| (id, &refused.spec));
        let selectors = attached.chain(refused).flat_map(|(id, spec)| spec.selectors.iter().map(move |one| (id, one)));
        let named = selectors.filter_map(|(id, selector)| Some((id, tree.named(selector).ok()??)));
        let below = |path: PathBuf| path.strip_prefix(&self.roots.cgroup).map(Path::to_owned).ok();
        named.flat_map(|(id, paths)| paths.into_iter().filter_map(below).map(move |path| (path, id))).collect()
    }
}

/// The thread's cgroup, below the root's.
fn cgroup_of(proc: &Path, thread: Cookied) -> Option<PathBuf> {
    let file = proc.join(format!("{}/task/{}/cgroup", thread.pid, thread.tid));
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix("0::/")).map(PathBuf::from)
}

/// The workload of the nearest cgroup at or above this one.
fn owner_of(groups: &[(PathBuf, WorkloadId)], cgroup: &Path) -> Option<WorkloadId> {
    let above = groups.iter().filter(|(path, _)| cgroup.starts_with(path));
    above.max_by_key(|(path, _)| path.components().count()).map(|&(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::{Class, CpuCount};

    #[test]
    fn a_thread_is_the_nearest_workloads_above_it() {
        let groups = [("a.slice", 0), ("a.slice/b.service", 1), ("a.slice/b", 2)]
            .map(|(path, id)| (path.into(), WorkloadId(id)));
        let owner = |path: &str| owner_of(&groups, Path::new(path)).map(|id| id.0);
        assert_eq!(owner("a.slice/b.service/worker"), Some(1));
        assert_eq!(owner("a.slice/b.serviced"), Some(0), "a name that only begins alike");
        assert_eq!(owner("user.slice"), None, "a cookie of no workload");
    }

    #[test]
    fn a_refused_workload_is_named_with_the_thread_and_the_fix() {
        let spec = Workload::new("db", Class::BestEffort, CpuCount::whole(1));
        let thread = Cookied { pid: 80, tid: 81, cookie: 1 };
        let mut cookies = Cookies::default();
        cookies.refused.insert(WorkloadId(3), Refused { spec, thread });
        let line = cookies.lines().next().unwrap();
        assert!(
            line.contains("'db': thread 81 of process 80") && line.contains("; start it without cookies"),
            "{line}"
        );
        assert!(matches!(cookies.verdict(WorkloadId(3)), Some(Verdict::Refused(Refusal::System(_)))));
        assert_eq!(cookies.verdict(WorkloadId(2)), None, "another one is refused nothing");
        cookies.forget(WorkloadId(3));
        assert_eq!(cookies.verdict(WorkloadId(3)), None);
    }
}
