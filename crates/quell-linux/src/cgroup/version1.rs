//! The cpu controller of cgroup v1, where that version has it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Roots, file};

/// Its mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuV1 {
    /// The cgroup that is mounted: the root, or a container's own.
    root: String,
    mount: PathBuf,
}

impl CpuV1 {
    /// Looks for it among the mounts of this process.
    #[must_use]
    pub fn find(roots: &Roots) -> Option<CpuV1> {
        let mounts = fs::read_to_string(roots.proc.join("self/mountinfo")).ok()?;
        mounts.lines().find_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            has_cpu(kind.strip_prefix("cgroup ")?.split(' ').nth(1)?).then_some(())?;
            let mut mount = mount.split(' ').skip(3);
            Some(CpuV1 { root: mount.next()?.to_owned(), mount: PathBuf::from(mount.next()?) })
        })
    }

    /// The cgroup of a process, by the text of its `/proc/PID/cgroup`.
    #[must_use]
    pub fn group_in(&self, text: &str) -> PathBuf {
        let named = |line: &str| {
            let mut parts = line.splitn(3, ':').skip(1);
            has_cpu(parts.next()?).then_some(())?;
            parts.next().map(str::to_owned)
        };
        let path = text.lines().find_map(named).unwrap_or_default();
        let below = path.strip_prefix(self.root.trim_end_matches('/')).unwrap_or("");
        self.mount.join(below.trim_start_matches('/'))
    }

    /// Does the kernel divide real-time CPU time among cgroups (RT group scheduling)?
    #[must_use]
    pub fn has_real_time_budgets(&self) -> bool {
        self.mount.join("cpu.rt_runtime_us").exists()
    }

    /// The file with a cgroup's budget, if that is zero: none of its threads can have a real-time class.
    #[must_use]
    pub fn closed_to_real_time(&self, group: &Path) -> Option<PathBuf> {
        let budget = group.join("cpu.rt_runtime_us");
        let is_zero = file::read(&budget).ok().flatten().is_some_and(|text| text == "0");
        is_zero.then_some(budget)
    }

    /// The cgroups right below the mount that have no budget, by name: services and slices, where systemd made them.
    #[must_use]
    pub fn closed_below(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.mount).into_iter().flatten().flatten();
        let mut closed: Vec<PathBuf> = entries.filter_map(|entry| self.closed_to_real_time(&entry.path())).collect();
        closed.sort();
        closed
    }
}

/// Is the controller in this list of names?
pub(super) fn has_cpu(names: &str) -> bool {
    names.split([' ', ',']).any(|name| name == "cpu")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_without_budget_is_closed_and_a_container_sees_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots::under(directory.path());
        let mount = directory.path().join("v1");
        let write = |path: PathBuf, text: String| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let line = format!("30 23 0:26 /docker/1 {} rw - cgroup cgroup rw,cpuacct,cpu\n", mount.display());
        write(roots.proc.join("self/mountinfo"), line);
        for (group, budget) in [("", "950000\n"), ("web", "0\n"), ("db", "100000\n")] {
            write(mount.join(group).join("cpu.rt_runtime_us"), budget.to_owned());
        }
        let found = CpuV1::find(&roots).unwrap();
        assert!(found.has_real_time_budgets());
        let web = found.group_in("2:cpuset:/\n1:cpu,cpuacct:/docker/1/web\n0::/\n");
        assert_eq!(web, mount.join("web"));
        assert_eq!(found.closed_to_real_time(&web), Some(mount.join("web/cpu.rt_runtime_us")));
        assert_eq!(found.closed_to_real_time(&mount.join("db")), None);
        assert_eq!(found.closed_below(), [mount.join("web/cpu.rt_runtime_us")]);
        fs::write(roots.proc.join("self/mountinfo"), "31 23 0:27 / /cg rw - cgroup2 cgroup2 rw\n").unwrap();
        assert_eq!(CpuV1::find(&roots), None);
    }
}
