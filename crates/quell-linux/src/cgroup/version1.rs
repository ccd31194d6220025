//! The controllers of CPUs of cgroup v1, where that version has them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use quell_model::{CpuCount, CpuSet};

use super::Allowed;
use crate::{Roots, file};

/// The mounted hierarchy of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    controller: &'static str,
    /// The cgroup that is mounted: the root, or a container's own.
    root: String,
    mount: PathBuf,
}

impl Hierarchy {
    /// Looks for it among the mounts of this process.
    fn find(roots: &Roots, controller: &'static str) -> Option<Hierarchy> {
        let mounts = fs::read_to_string(roots.proc.join("self/mountinfo")).ok()?;
        mounts.lines().find_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            has(controller, kind.strip_prefix("cgroup ")?.split(' ').nth(1)?).then_some(())?;
            let mut mount = mount.split(' ').skip(3);
            Some(Hierarchy { controller, root: mount.next()?.to_owned(), mount: PathBuf::from(mount.next()?) })
        })
    }

    /// The cgroup of a process, by the text of its `/proc/PID/cgroup`.
    fn group_in(&self, text: &str) -> PathBuf {
        let named = |line: &str| {
            let mut parts = line.splitn(3, ':').skip(1);
            has(self.controller, parts.next()?).then_some(())?;
            parts.next().map(str::to_owned)
        };
        let path = text.lines().find_map(named).unwrap_or_default();
        let below = path.strip_prefix(self.root.trim_end_matches('/')).unwrap_or("");
        self.mount.join(below.trim_start_matches('/'))
    }

    /// A cgroup and those above it, without the topmost one, which limits nothing.
    fn path_to<'a>(&'a self, group: &'a Path) -> impl Iterator<Item = &'a Path> {
        group.ancestors().take_while(|path| path.starts_with(&self.mount) && *path != self.mount)
    }
}

/// The cpu controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuV1(Hierarchy);

impl CpuV1 {
    /// Looks for it among the mounts of this process.
    #[must_use]
    pub fn find(roots: &Roots) -> Option<CpuV1> {
        Hierarchy::find(roots, "cpu").map(CpuV1)
    }

    /// The cgroup of a process, by the text of its `/proc/PID/cgroup`.
    #[must_use]
    pub fn group_in(&self, text: &str) -> PathBuf {
        self.0.group_in(text)
    }

    /// Does the kernel divide real-time CPU time among cgroups (RT group scheduling)?
    #[must_use]
    pub fn has_real_time_budgets(&self) -> bool {
        self.0.mount.join("cpu.rt_runtime_us").exists()
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
        let entries = fs::read_dir(&self.0.mount).into_iter().flatten().flatten();
        let mut closed: Vec<PathBuf> = entries.filter_map(|entry| self.closed_to_real_time(&entry.path())).collect();
        closed.sort();
        closed
    }
}

/// What cgroups allow processes by the cpu and cpuset controllers of version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundsV1 {
    cpu: Option<Hierarchy>,
    cpuset: Option<Hierarchy>,
}

/// One reading of them: each cgroup is read once.
pub struct ReadingV1<'a> {
    bounds: &'a BoundsV1,
    online: CpuSet,
    quotas: HashMap<PathBuf, Option<CpuCount>>,
    sets: HashMap<PathBuf, Option<CpuSet>>,
}

impl BoundsV1 {
    /// Looks for the controllers among the mounts of this process; None: version 1 has neither.
    #[must_use]
    pub fn find(roots: &Roots) -> Option<BoundsV1> {
        let (cpu, cpuset) = (Hierarchy::find(roots, "cpu"), Hierarchy::find(roots, "cpuset"));
        (cpu.is_some() || cpuset.is_some()).then_some(BoundsV1 { cpu, cpuset })
    }

    /// Begins to read.
    #[must_use]
    pub fn reading(&self, online: CpuSet) -> ReadingV1<'_> {
        ReadingV1 { bounds: self, online, quotas: HashMap::new(), sets: HashMap::new() }
    }
}

impl ReadingV1<'_> {
    /// What a process's cgroups and those above them allow, by the text of its `/proc/PID/cgroup`. A file that is not there, or
    /// cannot be read, allows all.
    pub fn of(&mut self, text: &str) -> Allowed {
        let quota = self.bounds.cpu.as_ref().and_then(|cpu| {
            let group = cpu.group_in(text);
            let tightest = || cpu.path_to(&group).filter_map(quota_of).min();
            *self.quotas.entry(group.clone()).or_insert_with(tightest)
        });
        let cpus = self.bounds.cpuset.as_ref().and_then(|cpuset| {
            let group = cpuset.group_in(text);
            let all = || cpuset.path_to(&group).filter_map(set_of).reduce(|one, other| one.intersection(&other));
            *self.sets.entry(group.clone()).or_insert_with(all)
        });
        // The kernel has a set follow when the last of its CPUs goes offline.
        let usable = cpus.map(|cpus| cpus.intersection(&self.online)).filter(|cpus| !cpus.is_empty());
        Allowed { cpus: usable.filter(|cpus| !self.online.is_subset(cpus)), quota }
    }
}

/// A cgroup's own quota (`cpu.cfs_quota_us`, -1 for none).
fn quota_of(group: &Path) -> Option<CpuCount> {
    let number = |name: &str| file::read(&group.join(name)).ok().flatten()?.trim().parse::<i64>().ok();
    let (quota, period) = (u64::try_from(number("cpu.cfs_quota_us")?).ok()?, number("cpu.cfs_period_us")?);
    let thousandths = (u128::from(quota) * 1000).checked_div(u128::try_from(period).ok()?)?;
    Some(CpuCount(u32::try_from(thousandths).unwrap_or(u32::MAX)))
}

/// A cgroup's own CPUs, as far as they are online.
fn set_of(group: &Path) -> Option<CpuSet> {
    let read = |name: &str| file::read(&group.join(name)).ok().flatten()?.trim().parse::<CpuSet>().ok();
    let found = read("cpuset.effective_cpus").or_else(|| read("cpuset.cpus"));
    found.filter(|set| !set.is_empty())
}

/// Is the controller in this list of names?
pub(super) fn has(controller: &str, names: &str) -> bool {
    names.split([' ', ',']).any(|name| name == controller)
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

    #[test]
    fn a_quota_and_a_set_hold_for_what_is_below_them() {
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots::under(directory.path());
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let at = directory.path().display();
        fs::create_dir_all(&roots.proc).unwrap();
        let mounts = format!(
            "30 23 0:26 / {at}/cpu rw - cgroup cgroup rw,cpu\n31 23 0:27 / {at}/set rw - cgroup cgroup rw,cpuset\n"
        );
        fs::create_dir_all(roots.proc.join("self")).unwrap();
        fs::write(roots.proc.join("self/mountinfo"), mounts).unwrap();
        for (group, quota) in [("", "-1"), ("/slice", "50000"), ("/slice/web", "-1"), ("/slice/db", "10000")] {
            write(&format!("cpu{group}/cpu.cfs_quota_us"), &format!("{quota}\n"));
            write(&format!("cpu{group}/cpu.cfs_period_us"), "100000\n");
        }
        for (group, set) in [("", "0-3"), ("/slice", "0-1"), ("/slice/web", "0-1"), ("/wide", "0-3"), ("/gone", "7")] {
            write(&format!("set{group}/cpuset.cpus"), &format!("{set}\n"));
        }
        let bounds = BoundsV1::find(&roots).unwrap();
        let mut reading = bounds.reading("0-3".parse().unwrap());
        let mut of = |cpu: &str, set: &str| {
            let Allowed { cpus, quota } = reading.of(&format!("2:cpuset:/{set}\n1:cpu:/{cpu}\n0::/\n"));
            (cpus.map(|cpus| cpus.to_string()), quota)
        };
        let narrow = Some("0-1".to_owned());
        assert_eq!(of("slice/web", "slice/web"), (narrow.clone(), Some(CpuCount(500))), "the slice's");
        assert_eq!(of("slice/db", "slice"), (narrow, Some(CpuCount(100))), "the tighter one's");
        assert_eq!(of("", "wide"), (None, None));
        assert_eq!(of("", "gone"), (None, None), "no CPU of it is there");
        fs::write(roots.proc.join("self/mountinfo"), "").unwrap();
        assert_eq!(BoundsV1::find(&roots), None);
    }
}
