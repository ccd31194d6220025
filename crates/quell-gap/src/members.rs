//! Whose thread is whose: selectors looked up in procfs and the cgroup hierarchies.
//!
//! A process belongs to the first workload that selects it, or else to its parent's. This looks anew at every scan and
//! changes nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use quell_linux::cgroup;
use quell_linux::procfs::ProcFs;
use quell_model::{CpuCount, Selector};
use serde::Serialize;

use crate::GapError;

/// A workload to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Its name.
    pub name: String,
    /// The CPUs that it requested; none for a neighbour that only is to be told apart.
    pub cpus: CpuCount,
    /// Where its threads are found.
    pub selectors: Vec<Selector>,
}

/// Finds the processes of workloads.
#[derive(Debug)]
pub struct Members {
    proc: ProcFs,
    /// Mount points of cgroup hierarchies. Version 1 has several.
    hierarchies: Vec<PathBuf>,
    pids: Vec<i32>,
}

/// The threads that a scan found: process and thread numbers, and the workload's slot.
pub type Found = Vec<(i32, i32, u16)>;

impl Members {
    /// Looks in this procfs and in these cgroup hierarchies.
    ///
    /// # Errors
    /// If the procfs cannot be opened.
    pub fn open(proc: &Path, hierarchies: Vec<PathBuf>) -> Result<Members, GapError> {
        Ok(Members { proc: ProcFs::open(proc)?, hierarchies, pids: Vec::new() })
    }

    /// The procfs that it reads.
    pub fn proc(&mut self) -> &mut ProcFs {
        &mut self.proc
    }

    /// Finds all threads of the workloads.
    ///
    /// # Errors
    /// If procfs or a cgroup cannot be read.
    pub fn scan(&mut self, requests: &[Request]) -> Result<Found, GapError> {
        let mut owners = self.selected(requests)?;
        if !requests.is_empty() {
            self.inherit(&mut owners)?;
        }
        let mut found = Found::new();
        let mut tids = Vec::new();
        for (pid, slot) in owners {
            tids.clear();
            self.proc.threads(pid, &mut tids)?;
            found.extend(tids.iter().map(|&tid| (pid, tid, slot)));
        }
        found.sort_unstable();
        found.dedup_by_key(|(_, tid, _)| *tid);
        Ok(found)
    }

    /// The processes that selectors name themselves.
    fn selected(&mut self, requests: &[Request]) -> Result<HashMap<i32, u16>, GapError> {
        let mut owners = HashMap::new();
        self.proc.pids(&mut self.pids)?;
        let ourselves = self.ourselves()?;
        for (slot, request) in requests.iter().enumerate() {
            for selector in &request.selectors {
                let mut chosen = Vec::new();
                match selector {
                    Selector::Pid(pid) if self.pids.binary_search(pid).is_ok() => chosen.push(*pid),
                    Selector::Pid(_) => {}
                    Selector::Cgroup(path) => self.in_cgroup(path, &mut chosen)?,
                    Selector::Unit(name) => {
                        let suffix = if name.contains('.') { "" } else { ".service" };
                        let name = format!("{name}{suffix}");
                        let groups = self.hierarchies.iter().flat_map(|root| groups_below(root));
                        for group in groups.filter(|group| group.ends_with(&name)) {
                            in_tree(&group, &mut chosen)?;
                        }
                    }
                    Selector::Command(text) => {
                        for index in 0..self.pids.len() {
                            let pid = self.pids[index];
                            if !ourselves.contains(&pid) && self.proc.command_contains(pid, text)? {
                                chosen.push(pid);
                            }
                        }
                    }
                }
                for pid in chosen {
                    owners.entry(pid).or_insert(slot as u16);
                }
            }
        }
        Ok(owners)
    }

    /// This process and those that started it: the text that is looked for stands in their command lines too.
    fn ourselves(&mut self) -> Result<Vec<i32>, GapError> {
        let mut line = vec![std::process::id() as i32];
        while let Some(stat) = self.proc.stat(line[line.len() - 1], line[line.len() - 1])? {
            if stat.parent <= 1 || line.contains(&stat.parent) {
                break;
            }
            line.push(stat.parent);
        }
        Ok(line)
    }

    /// The processes in a cgroup and below it: the path is below a hierarchy's root, or a directory in one.
    fn in_cgroup(&self, path: &Path, into: &mut Vec<i32>) -> Result<(), GapError> {
        let below = path.strip_prefix("/").unwrap_or(path);
        for root in &self.hierarchies {
            let group = if path.starts_with(root) { path.to_owned() } else { root.join(below) };
            in_tree(&group, into)?;
        }
        Ok(())
    }

    /// Children belong to their parent's workload, unless a selector names them.
    fn inherit(&mut self, owners: &mut HashMap<i32, u16>) -> Result<(), GapError> {
        let mut parents = HashMap::with_capacity(self.pids.len());
        for &pid in &self.pids {
            if let Some(stat) = self.proc.stat(pid, pid)? {
                parents.insert(pid, stat.parent);
            }
        }
        for &pid in &self.pids {
            let mut ancestor = pid;
            // A chain of parents is no longer than the list of processes, whatever races the reading had.
            for _ in 0..self.pids.len() {
                if let Some(&slot) = owners.get(&ancestor) {
                    owners.insert(pid, slot);
                    break;
                }
                match parents.get(&ancestor) {
                    Some(&parent) if parent > 0 => ancestor = parent,
                    _ => break,
                }
            }
        }
        Ok(())
    }
}

/// The processes of a cgroup and of those below it.
fn in_tree(group: &Path, into: &mut Vec<i32>) -> Result<(), GapError> {
    for group in groups_below(group) {
        cgroup::members(&group, into)?;
    }
    Ok(())
}

/// A cgroup and those below it; none if it is not there. One that vanishes meanwhile is not there either.
fn groups_below(group: &Path) -> Vec<PathBuf> {
    let mut groups: Vec<PathBuf> = group.is_dir().then(|| group.to_owned()).into_iter().collect();
    let mut next = 0;
    while let Some(entries) = groups.get(next).map(std::fs::read_dir) {
        next += 1;
        let directories = entries.into_iter().flatten().flatten();
        let directories = directories.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        groups.extend(directories.map(|entry| entry.path()));
    }
    groups
}

/// Where cgroup hierarchies are mounted on this machine, of both versions.
#[must_use]
pub fn mounted_hierarchies() -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = |line: &str| {
        let (mount, kind) = line.split_once(" - ")?;
        if !kind.starts_with("cgroup") {
            return None;
        }
        mount.split(' ').nth(4).map(PathBuf::from)
    };
    mounts.lines().filter_map(mount).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A procfs of processes (number, parent, command line) and a cgroup hierarchy.
    fn machine(processes: &[(i32, i32, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (pid, parent, command) in processes {
            let task = root.path().join(format!("proc/{pid}/task/{pid}"));
            fs::create_dir_all(&task).unwrap();
            let numbers = "0 ".repeat(60);
            fs::write(task.join("stat"), format!("{pid} (x) S {parent} {numbers}\n")).unwrap();
            fs::write(root.path().join(format!("proc/{pid}/cmdline")), command.replace(' ', "\0")).unwrap();
        }
        fs::create_dir_all(root.path().join("cg/pod/inner")).unwrap();
        root
    }

    fn request(name: &str, selector: Selector) -> Request {
        Request { name: name.into(), cpus: CpuCount::whole(1), selectors: vec![selector] }
    }

    #[test]
    fn descendants_follow_and_the_first_workload_wins() {
        let root = machine(&[(10, 1, "server -a"), (11, 10, "child"), (12, 11, "grandchild"), (20, 1, "other")]);
        fs::write(root.path().join("cg/pod/cgroup.procs"), "12\n").unwrap();
        fs::write(root.path().join("cg/pod/inner/cgroup.procs"), "20\n").unwrap();
        let mut members = Members::open(&root.path().join("proc"), vec![root.path().join("cg")]).unwrap();
        let requests = [request("a", Selector::Pid(10)), request("b", Selector::Cgroup("/pod".into()))];
        let found = members.scan(&requests).unwrap();
        assert_eq!(found, [(10, 10, 0), (11, 11, 0), (12, 12, 1), (20, 20, 1)]);
        let by_command = members.scan(&[request("c", Selector::Command("server -a".into()))]).unwrap();
        assert_eq!(by_command, [(10, 10, 0), (11, 11, 0), (12, 12, 0)]);
        assert_eq!(members.scan(&[request("gone", Selector::Pid(99))]).unwrap(), []);
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let root = machine(&[(10, 11, "a"), (11, 10, "b")]);
        let mut members = Members::open(&root.path().join("proc"), vec![]).unwrap();
        assert_eq!(members.scan(&[request("gone", Selector::Pid(99))]).unwrap(), []);
    }
}
