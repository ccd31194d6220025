//! The threads of each workload, for read-only commands: nothing is attached, nothing is changed.

use std::path::{Path, PathBuf};

use quell_model::{Nanos, Selector, ThreadId, WorkloadId};

use super::command::Command;
use super::finder::own_line;
use super::{Finder, Found, Resolved};
use crate::cgroup::{Group, Tree};
use crate::procfs::ProcFs;
use crate::{LinuxError, clock};

/// A thread that a census found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counted {
    /// Its number.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    /// The place of the selectors that it belongs to.
    pub slot: u16,
}

/// Finds the threads of several sets of selectors by the rules of the host, in cgroup hierarchies of both versions. A
/// selector without a match is no error: its target may come later.
#[derive(Debug)]
pub struct Census {
    proc: ProcFs,
    hierarchies: Vec<PathBuf>,
    selectors: Vec<Vec<Selector>>,
    resolved: Vec<(WorkloadId, Resolved)>,
    finder: Finder,
}

impl Census {
    /// Looks in this procfs and in these cgroup hierarchies.
    ///
    /// # Errors
    /// If the procfs cannot be read.
    pub fn open(proc: &Path, hierarchies: Vec<PathBuf>, selectors: Vec<Vec<Selector>>) -> Result<Census, LinuxError> {
        let mut proc = ProcFs::open(proc)?;
        let finder = Finder::new(own_line(&mut proc)?);
        let resolved = (0..selectors.len() as u32).map(|slot| (WorkloadId(slot), Resolved::default())).collect();
        Ok(Census { proc, hierarchies, selectors, resolved, finder })
    }

    /// The procfs that it reads.
    pub fn proc(&mut self) -> &mut ProcFs {
        &mut self.proc
    }

    /// All threads of all sets, ascending.
    ///
    /// # Errors
    /// If procfs or a cgroup cannot be read.
    pub fn scan(&mut self) -> Result<Vec<Counted>, LinuxError> {
        let trees: Vec<Tree> = self.hierarchies.iter().map(|root| Tree::at(root)).collect();
        for slot in 0..self.selectors.len() {
            let resolved = self.resolve(slot, &trees)?;
            let known = &mut self.resolved[slot].1;
            if known.roots != resolved.roots || known.commands != resolved.commands {
                self.finder.selectors_changed();
            }
            *known = resolved;
        }
        let mut found = Vec::new();
        self.finder.scan(&mut self.proc, &self.resolved, clock::now().max(Nanos(1)), &mut found)?;
        let counted =
            |thread: &Found| Counted { tid: thread.tid, pid: thread.pid, slot: thread.workload.index() as u16 };
        Ok(found.iter().map(counted).collect())
    }

    fn resolve(&mut self, slot: usize, trees: &[Tree]) -> Result<Resolved, LinuxError> {
        let mut resolved = Resolved::default();
        for selector in &self.selectors[slot] {
            match selector {
                Selector::Cgroup(_)
                | Selector::Unit(_)
                | Selector::Container(_)
                | Selector::Label(_)
                | Selector::Pod(_) => {
                    for (root, tree) in self.hierarchies.iter().zip(trees) {
                        // A path may be given from the file system's root, too.
                        let below = match selector {
                            Selector::Cgroup(path) => path.strip_prefix(root).ok(),
                            _ => None,
                        };
                        let selector = below.map_or_else(|| selector.clone(), |path| Selector::Cgroup(path.to_owned()));
                        let groups = tree.named(&selector)?.unwrap_or_default();
                        resolved.groups.extend(groups.into_iter().map(Group::at));
                    }
                }
                Selector::Pid(pid) => {
                    // Once it was seen, another process with its number is another process.
                    let known = self.resolved[slot].1.roots.iter().find(|root| root.tid == *pid).copied();
                    let seen = match known {
                        Some(root) => Some(root),
                        None => self.proc.stat(*pid, *pid)?.map(|stat| ThreadId { tid: *pid, start: stat.start }),
                    };
                    resolved.roots.extend(seen);
                }
                // A user that does not exist has no process.
                Selector::Command(line) => resolved.commands.extend(Command::look_up(line)),
            }
        }
        Ok(resolved)
    }
}

/// Mount points of cgroup hierarchies on this machine, of both versions.
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

    fn scan(root: &tempfile::TempDir, selectors: &[Selector]) -> Vec<(i32, u16)> {
        let sets = selectors.iter().map(|selector| vec![selector.clone()]).collect();
        let mut census = Census::open(&root.path().join("proc"), vec![root.path().join("cg")], sets).unwrap();
        census.scan().unwrap().iter().map(|thread| (thread.pid, thread.slot)).collect()
    }

    #[test]
    fn descendants_follow_and_a_cgroup_counts_before_the_parent() {
        let root = machine(&[(10, 1, "server -a"), (11, 10, "child"), (12, 11, "grandchild"), (20, 1, "other")]);
        fs::write(root.path().join("cg/pod/cgroup.procs"), "12\n").unwrap();
        fs::write(root.path().join("cg/pod/inner/cgroup.procs"), "20\n").unwrap();
        let found = scan(&root, &[Selector::Pid(10), Selector::Cgroup("/pod".into())]);
        assert_eq!(found, [(10, 0), (11, 0), (12, 1), (20, 1)]);
        assert_eq!(scan(&root, &[Selector::Command("server -a".into())]), [(10, 0), (11, 0), (12, 0)]);
        assert_eq!(scan(&root, &[Selector::Pid(99)]), []);
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let root = machine(&[(10, 11, "a"), (11, 10, "b")]);
        assert_eq!(scan(&root, &[Selector::Pid(99)]), []);
    }

    #[test]
    fn what_comes_later_is_found_later_and_another_process_with_the_number_is_not_taken_for_it() {
        let root = machine(&[(10, 1, "server")]);
        let sets = vec![vec![Selector::Pid(10)], vec![Selector::Cgroup("later".into())]];
        let mut census = Census::open(&root.path().join("proc"), vec![root.path().join("cg")], sets).unwrap();
        assert_eq!(census.scan().unwrap().len(), 1);
        fs::create_dir_all(root.path().join("cg/later")).unwrap();
        fs::write(root.path().join("cg/later/cgroup.procs"), "10\n").unwrap();
        let stat = root.path().join("proc/10/task/10/stat");
        fs::remove_dir_all(root.path().join("proc/10")).unwrap();
        assert_eq!(census.scan().unwrap(), []);
        fs::create_dir_all(stat.parent().unwrap()).unwrap();
        let numbers = "7 ".repeat(60);
        fs::write(stat, format!("10 (x) S 1 {numbers}\n")).unwrap();
        let found = census.scan().unwrap();
        assert_eq!(found.iter().map(|thread| (thread.pid, thread.slot)).collect::<Vec<_>>(), [(10, 1)]);
    }
}
