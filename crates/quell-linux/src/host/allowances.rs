//! Reads what the workloads' cgroups, and those above them, allow: policies choose within.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quell_model::{Allowance, CpuCount, CpuSet, Event, Nanos, Workload, WorkloadId};

use super::LinuxHost;
use crate::cgroup::{self, Allowed, BoundsV1, CpuV1, Reading, ReadingV1};
use crate::members::{Places, Resolved, Sighting};
use crate::procfs::ProcFs;
use crate::write::{Ledger, Place, Value};
use crate::{HostOptions, LinuxError, Roots, clock, file, sysfs};

/// Interval of the readings, in intervals of the scans: half a second …
const EVERY: u64 = 25;
/// … and no more often than that they take one in this many of a CPU's time.
const SHARE: u64 = 100;
/// Workloads that are looked at in one go.
const AT_ONCE: usize = 32;
/// Of a workload that is selected by process, this many are looked at.
const PROCESSES: usize = 8;

/// The next reading, and what is read beside the workloads'.
#[derive(Debug, Default)]
pub(super) struct Next {
    /// The controllers of CPUs of cgroup v1, where that version has them.
    bounds: Option<BoundsV1>,
    /// The CPUs that the kernel keeps free of what does not ask for them.
    pub isolated: CpuSet,
    /// When.
    at: Nanos,
    /// Of which workload on, by its place among the selectors.
    from: usize,
}

impl Next {
    pub fn on(roots: &Roots) -> Next {
        Next { bounds: BoundsV1::find(roots), ..Next::default() }
    }
}

/// What the cgroups of a workload that is not attached allow it, as of now; None: they do not limit it, or there are none yet.
#[must_use]
pub fn allowance(roots: &Roots, options: &HostOptions, workload: &Workload) -> Option<Allowance> {
    let _ = options;
    let mut proc = ProcFs::open(&roots.proc).ok()?;
    let sighting = &Sighting::of(&roots.cgroup);
    let resolved = Places { roots, proc: &mut proc, sighting, exempt: &[] }.resolve(workload).ok()?;
    let mut reading = Reading::new(&roots.cgroup, sysfs::online(&roots.sys).ok()?, &|_| None, &|_| true);
    let groups: Vec<PathBuf> = resolved.group_paths().cloned().collect();
    let mut pids: Vec<i32> = resolved.roots.iter().map(|root| root.tid).collect();
    groups.iter().try_for_each(|group| cgroup::members(group, &mut pids).map(|_| ())).ok()?;
    let budgets = CpuV1::find(roots).filter(CpuV1::has_real_time_budgets);
    let bounds = BoundsV1::find(roots);
    let mut v1 = bounds.as_ref().map(|bounds| bounds.reading(sysfs::online(&roots.sys).unwrap_or_default()));
    let of_v1 = of_processes(&mut v1, roots, pids.iter().copied());
    let no_realtime = are_closed_to_real_time(budgets.as_ref(), roots, pids);
    let above = all_of(groups.iter().map(|group| reading.of_own(group))).unwrap_or_default();
    let Allowed { cpus, quota } = both(above, of_v1);
    let found = Allowance { workload: WorkloadId(0), cpus, quota, no_realtime };
    found.is_limited().then_some(found)
}

/// The CPUs from which the kernel keeps what does not ask for them: `isolcpus=`, `nohz_full=`, isolated partitions of cpusets.
/// What cannot be read isolates none.
#[must_use]
pub fn isolated(roots: &Roots) -> CpuSet {
    let (sys, partitions) = (&roots.sys, roots.cgroup.join("cpuset.cpus.isolated"));
    let partitioned = cgroup::read_file(&partitions).ok().flatten().and_then(|text| text.trim().parse().ok());
    let at_boot = [sysfs::isolated(sys), sysfs::without_tick(sys)].into_iter().flatten();
    at_boot.chain(partitioned).fold(CpuSet::EMPTY, |all, set| all.union(&set))
}

impl LinuxHost {
    /// The CPUs that policies may have: those of now, and with those that may come online. Isolated ones are none of them: the
    /// kernel keeps threads from those that do not ask for them.
    #[must_use]
    pub fn cpus(&self) -> (CpuSet, CpuSet) {
        let all = self.members.topology.all();
        let possible = sysfs::possible(&self.members.roots.sys).unwrap_or(all).union(&all);
        let possible = possible.difference(&isolated(&self.members.roots));
        let now = all.intersection(&possible);
        // Where all are isolated, none is kept for others.
        if now.is_empty() { (all, all) } else { (now, possible) }
    }

    /// What its cgroups allow a workload; None: they do not limit it.
    #[must_use]
    pub fn allowance(&self, id: WorkloadId) -> Option<Allowance> {
        let all = &self.members.allowances;
        all.binary_search_by_key(&id, |allowance| allowance.workload).ok().map(|at| all[at])
    }

    /// Is a workload's cgroup a threaded one, in which threads are members, and not their processes?
    #[must_use]
    pub fn is_by_thread(&self, id: WorkloadId) -> bool {
        let is_threaded = |group: &PathBuf| {
            let kind = cgroup::read_file(&group.join("cgroup.type")).ok().flatten();
            kind.is_some_and(|kind| kind.trim() == "threaded")
        };
        self.members.resolved(id).is_some_and(|resolved| resolved.group_paths().any(is_threaded))
    }

    /// When due: reads what is allowed. Workloads for which that changed are made true again.
    pub(super) fn look_at_allowances(&mut self, now: Nanos) {
        if now < self.reading.at {
            return;
        }
        let began = clock::cpu_time();
        self.reading.isolated = isolated(&self.members.roots);
        let selectors = self.members.selectors.len();
        let from = if self.reading.from < selectors { self.reading.from } else { 0 };
        let part = from..selectors.min(from + AT_ONCE);
        self.reading.from = part.end;
        let found = self.read_allowances(part.clone());
        let round = if part.end < selectors { 0 } else { self.members.options.scan_interval.0 * EVERY };
        self.reading.at = now + Nanos(round.max((clock::cpu_time() - began).0 * SHARE));
        let mut changed = Vec::new();
        for (id, _) in &self.members.selectors[part] {
            let is_its = |one: &&Allowance| one.workload == *id;
            if self.allowance(*id) != found.iter().find(is_its).copied() {
                changed.push(*id);
            }
        }
        let is_gone = |one: &Allowance| self.members.get(one.workload).is_none();
        if changed.is_empty() && !self.members.allowances.iter().any(is_gone) {
            return;
        }
        let stays = |one: &&Allowance| !is_gone(one) && !changed.contains(&one.workload);
        let mut all: Vec<Allowance> = self.members.allowances.iter().filter(stays).copied().collect();
        all.extend(found.iter().filter(|one| changed.contains(&one.workload)));
        all.sort_unstable_by_key(|one| one.workload);
        self.members.allowances = Arc::new(all);
        self.pending.extend(changed.iter().map(|id| Event::Allowed(*id)));
        self.due.workloads.append(&mut changed);
    }

    /// A workload came, or became another one: it is looked at next.
    pub(super) fn look_at_allowance_of(&mut self, id: WorkloadId) {
        let at = self.members.selectors.partition_point(|(other, _)| *other < id);
        // Several may come before the next reading.
        let is_due = self.reading.at == Nanos::ZERO;
        self.reading.from = if is_due { self.reading.from.min(at) } else { at };
        self.reading.at = Nanos::ZERO;
    }

    fn read_allowances(&self, part: Range<usize>) -> Vec<Allowance> {
        let (members, ledger) = (&self.members, &self.writes.ledger);
        let origin = |path: &Path| match ledger.origin(&Place::File(path.to_owned())) {
            Some(Value::Text(origin)) => Some(origin.clone()),
            _ => None,
        };
        let root = &members.roots.cgroup;
        let partitions = has_partitions(ledger);
        let sees_effective = |group: &Path| {
            let own = group.ancestors().take_while(|path| path.starts_with(root));
            !partitions && own.into_iter().all(|path| origin(&path.join("cpuset.cpus")).is_none())
        };
        let mut reading = Reading::new(root, members.online, &origin, &sees_effective);
        let mut found = Vec::new();
        let mut v1 = self.reading.bounds.as_ref().map(|bounds| bounds.reading(members.online));
        for (id, resolved) in &members.selectors[part] {
            let groups = resolved.group_paths().map(|group| reading.of_own(group)).collect::<Vec<_>>();
            let processes = self.groups_of_processes(*id, resolved);
            let processes = processes.iter().map(|group| reading.of(group)).collect::<Vec<_>>();
            let above = all_of(groups.into_iter().chain(processes)).unwrap_or_default();
            let own = members.threads.iter().filter(|thread| thread.workload == *id && thread.is_first());
            let Allowed { cpus, quota } =
                both(above, of_processes(&mut v1, &members.roots, own.clone().map(|thread| thread.pid)));
            let no_realtime =
                are_closed_to_real_time(members.budgets.as_ref(), &members.roots, own.map(|thread| thread.pid));
            let one = Allowance { workload: *id, cpus, quota, no_realtime };
            found.extend(one.is_limited().then_some(one));
        }
        found
    }

    /// The cgroups of the processes of a workload that is selected by process.
    fn groups_of_processes(&self, id: WorkloadId, resolved: &Resolved) -> Vec<PathBuf> {
        if !resolved.selects_processes() {
            return Vec::new();
        }
        let own = self.members.threads.iter().filter(|thread| thread.workload == id && thread.is_first());
        let roots = &self.members.roots;
        let group = |pid: i32| -> Result<Option<PathBuf>, LinuxError> {
            let text = file::read(&roots.proc.join(format!("{pid}/cgroup")))?.unwrap_or_default();
            Ok(text.lines().find_map(|line| line.strip_prefix("0::/")).map(|path| roots.cgroup.join(path)))
        };
        let groups: BTreeSet<PathBuf> =
            own.take(PROCESSES).filter_map(|thread| group(thread.pid).ok().flatten()).collect();
        groups.into_iter().collect()
    }
}

/// What the cgroups of version 1 allow the first of these processes together.
fn of_processes(reading: &mut Option<ReadingV1<'_>>, roots: &Roots, pids: impl Iterator<Item = i32>) -> Allowed {
    let Some(reading) = reading else { return Allowed::default() };
    let texts = pids.take(PROCESSES).filter_map(|pid| file::read(&roots.proc.join(format!("{pid}/cgroup"))).ok()?);
    all_of(texts.map(|text| reading.of(&text))).unwrap_or_default()
}

/// What holds if both do.
fn both(one: Allowed, other: Allowed) -> Allowed {
    let within = |one: CpuSet, other: CpuSet| {
        let both = one.intersection(&other);
        if both.is_empty() { other } else { both }
    };
    let cpus = match (one.cpus, other.cpus) {
        (Some(one), Some(other)) => Some(within(one, other)),
        (one, other) => one.or(other),
    };
    Allowed { cpus, quota: one.quota.into_iter().chain(other.quota).min() }
}

/// Processes of which the cgroup is looked up at most, for a real-time budget.
const BUDGETS: usize = 256;

/// Is one of these processes in a cgroup without real-time budget? Then no plan with SCHED_FIFO for all of them is taken.
fn are_closed_to_real_time(budgets: Option<&CpuV1>, roots: &Roots, pids: impl IntoIterator<Item = i32>) -> bool {
    let Some(budgets) = budgets else { return false };
    let mut open = BTreeSet::new();
    pids.into_iter().take(BUDGETS).any(|pid| {
        let text = file::read(&roots.proc.join(format!("{pid}/cgroup"))).ok().flatten().unwrap_or_default();
        let group = budgets.group_in(&text);
        // One look a cgroup: mostly all are in the same.
        !open.contains(&group) && (budgets.closed_to_real_time(&group).is_some() || !open.insert(group))
    })
}

/// With a partition of Quell's, the CPUs that it has are in no other cgroup's effective set.
fn has_partitions(ledger: &Ledger) -> bool {
    ledger.files().any(|path| path.ends_with("cpuset.cpus.partition"))
}

/// What several cgroups allow together: CPUs that one of them has, and the largest quota. None: there is no cgroup.
fn all_of(groups: impl Iterator<Item = Allowed>) -> Option<Allowed> {
    let widest = |one: Option<CpuCount>, other: Option<CpuCount>| Some(one?.max(other?));
    groups.reduce(|one, other| Allowed {
        cpus: one.cpus.zip(other.cpus).map(|(one, other)| one.union(&other)),
        quota: widest(one.quota, other.quota),
    })
}

#[cfg(test)]
mod tests {
    use quell_model::{Class, Host as _, Selector, SignalSet, Topology, View};

    use super::*;
    use crate::testkit::FakeTree;

    #[test]
    fn a_cgroup_without_real_time_budget_closes_the_classes_to_its_workload() {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        let mount = tree.path().join("v1");
        tree.write("proc/self/mountinfo", &format!("30 23 0:26 / {} rw - cgroup cgroup rw,cpu\n", mount.display()));
        tree.write("v1/cpu.rt_runtime_us", "950000\n");
        for (pid, name, budget) in [(100, "web", "0\n"), (200, "db", "100000\n")] {
            tree.process(pid, 1, name);
            tree.cgroup(name);
            tree.join(name, &[pid]);
            tree.write(format!("proc/{pid}/cgroup"), &format!("2:cpu:/{name}\n0::/{name}\n"));
            tree.write(format!("v1/{name}/cpu.rt_runtime_us"), budget);
        }
        let mut host = tree.host(HostOptions::default()).unwrap();
        let workloads = ["web", "db"].map(|name| {
            let mut workload = Workload::new(name, Class::LatencyCritical, CpuCount::whole(1));
            workload.selectors.push(Selector::Cgroup(name.into()));
            workload
        });
        let ids = workloads.clone().map(|workload| host.attach(workload).unwrap());
        let (mut view, mut events) = (View::new(host.topology()), Vec::new());
        host.observe(SignalSet::default(), &mut view, &mut events).unwrap();
        let is_closed = |found: Option<Allowance>| found.is_some_and(|found| found.no_realtime);
        assert_eq!(ids.map(|id| is_closed(view.allowance(id).copied())), [true, false]);
        let before = |workload| is_closed(allowance(&tree.roots(), &HostOptions::default(), workload));
        assert_eq!([before(&workloads[0]), before(&workloads[1])], [true, false], "`quell check` knows it, too");
    }

    #[test]
    fn cgroups_of_version_1_allow_no_more_than_those_above_them() {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        let mount = |name: &str| tree.path().join(name).display().to_string();
        let mounts = format!(
            "30 23 0:26 / {} rw - cgroup cgroup rw,cpu\n31 23 0:27 / {} rw - cgroup cgroup rw,cpuset\n",
            mount("cpu"),
            mount("cpuset")
        );
        tree.write("proc/self/mountinfo", &mounts);
        tree.process(100, 1, "web");
        tree.write("proc/100/cgroup", "3:cpuset:/batch\n2:cpu:/outer/inner\n0::/\n");
        for (group, quota) in [("outer", "150000\n"), ("outer/inner", "-1\n")] {
            tree.write(format!("cpu/{group}/cpu.cfs_quota_us"), quota);
            tree.write(format!("cpu/{group}/cpu.cfs_period_us"), "100000\n");
        }
        tree.write("cpuset/batch/cpuset.cpus", "1-2\n");
        let mut workload = Workload::new("web", Class::LatencyCritical, CpuCount::whole(2));
        workload.selectors.push(Selector::Pid(100));
        let before = allowance(&tree.roots(), &HostOptions::default(), &workload).unwrap();
        assert_eq!(before.to_string(), "CPUs 1-2 and 1.5 CPUs of time", "`quell check` knows it");
        let mut host = tree.host(HostOptions::default()).unwrap();
        let id = host.attach(workload).unwrap();
        let (mut view, mut events) = (View::new(host.topology()), Vec::new());
        host.observe(SignalSet::default(), &mut view, &mut events).unwrap();
        let found = view.allowance(id).unwrap();
        assert_eq!((found.cpus, found.quota), (Some("1-2".parse().unwrap()), Some(CpuCount(1500))));
    }
}
