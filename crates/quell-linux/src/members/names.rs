//! Programs and threads by their names, for people; and cgroups that come later.

use std::collections::BTreeSet;
use std::path::Path;

use quell_model::{Selector, Target, WorkloadId, foreign};

use super::Members;
use super::sighting::Sighting;
use crate::cgroup;
use crate::procfs::has_ended;

impl Members {
    /// The programs of a target: `memcached 4711`, `memcached 4711/worker`, or `memcached 4711 and 2 more`.
    pub fn programs(&self, target: Target) -> String {
        match target {
            Target::Workload(id) => {
                let own = self.threads.iter().filter(|thread| thread.workload == id);
                let pids: BTreeSet<i32> = own.map(|thread| thread.pid).collect();
                match (pids.first(), pids.len()) {
                    (None, _) => "no process yet".into(),
                    (Some(&pid), 1) => self.program(pid, pid),
                    (Some(&pid), count) => format!("{} and {} more", self.program(pid, pid), count - 1),
                }
            }
            Target::Thread(id) => {
                let known = self.threads.iter().find(|thread| thread.id == id);
                self.program(known.map_or(id.tid, |thread| thread.pid), id.tid)
            }
            Target::Cpu(cpu) => format!("CPU {cpu}"),
            Target::Machine => "the whole machine".into(),
        }
    }

    /// A thread's workload; None if it belongs to none.
    pub fn workload_of(&self, target: Target) -> Option<&str> {
        let id = match target {
            Target::Workload(id) => Some(id),
            Target::Thread(id) => self.threads.iter().find(|thread| thread.id == id).map(|thread| thread.workload),
            Target::Cpu(_) | Target::Machine => None,
        };
        self.get(id?).map(|member| member.spec.name.as_str())
    }

    fn program(&self, pid: i32, tid: i32) -> String {
        if has_ended(&self.roots.proc, tid) {
            return program("", pid, "", tid);
        }
        let name = |path: String| comm(&self.roots.proc.join(path));
        program(&name(format!("{pid}/comm")), pid, &name(format!("{pid}/task/{tid}/comm")), tid)
    }

    /// Cgroups that the last look for a workload could not look into, for want of a right.
    pub fn unreadable_cgroups(&self) -> usize {
        self.search.unreadable
    }

    /// Do the patterns, containers and pods among a workload's selectors match other cgroups now than when it attached?
    pub fn has_other_cgroups(&self, id: WorkloadId) -> bool {
        let Some(member) = self.get(id) else { return false };
        let varies = |selector: &Selector| match selector {
            Selector::Cgroup(path) => path.to_str().is_some_and(cgroup::is_pattern),
            Selector::Unit(name) => cgroup::is_pattern(name),
            Selector::Container(_) | Selector::Label(_) | Selector::Pod(_) => true,
            Selector::Pid(_) | Selector::Command(_) => false,
        };
        if !member.spec.selectors.iter().any(varies) {
            return false;
        }
        let fresh = Sighting::of(&self.roots.cgroup);
        let tree = &self.search.sighting.as_ref().unwrap_or(&fresh).tree;
        let paths = member.spec.selectors.iter().map(|selector| tree.named(selector));
        let Ok(paths) = paths.collect::<Result<Vec<_>, _>>() else { return false };
        let now: BTreeSet<_> = paths.into_iter().flatten().flatten().collect();
        let known = self.resolved(id);
        let known: BTreeSet<_> = known.into_iter().flat_map(|resolved| resolved.group_paths().cloned()).collect();
        !now.is_empty() && now != known
    }
}

/// The name in a file `comm`, made safe to print; empty if there is none. Any user names programs and threads.
#[must_use]
pub fn comm(path: &Path) -> String {
    let name = std::fs::read(path).unwrap_or_default();
    foreign::bytes(name.strip_suffix(b"\n").unwrap_or(&name))
}

/// A thread by its names: `memcached 4711/worker`; the first thread of a process is the process.
#[must_use]
pub fn program(process: &str, pid: i32, thread: &str, tid: i32) -> String {
    let process = if process.is_empty() { "process" } else { process };
    match (tid == pid, thread) {
        (true, _) => format!("{process} {pid}"),
        (false, "") => format!("{process} {pid}/{tid}"),
        (false, thread) if thread == process => format!("{process} {pid}/{tid}"),
        (false, thread) => format!("{process} {pid}/{thread}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostOptions;
    use crate::testkit::FakeTree;
    use quell_model::{Class, CpuCount, Topology, Workload};

    #[test]
    fn cgroups_that_a_pattern_matches_later_belong_to_it() {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
        tree.cgroup("job-1");
        let mut host = tree.host(HostOptions::default()).unwrap();
        let selectors = vec![Selector::Cgroup("job-*".into())];
        let workload = Workload { selectors, ..Workload::new("jobs", Class::BestEffort, CpuCount::ZERO) };
        let id = host.attach(workload.clone()).unwrap();
        assert!(!host.has_other_cgroups(id));
        tree.cgroup("job-2");
        assert!(host.has_other_cgroups(id));
        host.update(id, workload).unwrap();
        assert!(!host.has_other_cgroups(id));
    }

    #[test]
    fn a_thread_has_its_programs_name_and_its_own() {
        assert_eq!(program("memcached", 4711, "memcached", 4711), "memcached 4711");
        assert_eq!(program("memcached", 4711, "worker", 4712), "memcached 4711/worker");
        assert_eq!(program("stress", 4711, "stress", 4712), "stress 4711/4712");
        assert_eq!(program("", 4711, "", 4712), "process 4711/4712");
    }
}
