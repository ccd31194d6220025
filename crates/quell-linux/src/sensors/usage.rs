//! CPU time of the workloads whose values are set on cgroups, as the cgroups count it.

use quell_model::{Capabilities, Class, Nanos, Sample, Signal, SignalSet, View, WorkloadId};

use super::{Sensor, of_slot};
use crate::LinuxError;
use crate::cgroup::{self, Group, UsageFile};
use crate::members::{Level, Member, Members};

/// Up to this many workloads that are not latency-critical are read at each look …
const FEW: usize = 100;
/// … and more of them together, this often: a file each.
const OTHERS_EVERY: Nanos = Nanos::from_secs(1);

/// CPU time used since each workload attached.
#[derive(Debug)]
pub(crate) struct Usage {
    /// By slot.
    used: Vec<Used>,
    /// Number of files that may stay open from one observation to the next.
    may_stay_open: usize,
    /// The last time that those that are not latency-critical were read.
    read_others: Nanos,
}

/// That of one workload's cgroups.
#[derive(Debug, Default)]
struct Used {
    at_attach: Nanos,
    /// By cgroup.
    files: Vec<UsageFile>,
    /// What was read last.
    seen: Sample<Nanos>,
}

impl Default for Usage {
    fn default() -> Usage {
        Usage { used: Vec::new(), may_stay_open: cgroup::most_open_files(), read_others: Nanos::ZERO }
    }
}

impl Sensor for Usage {
    /// Nothing: the threads' sensor reports the same signals, which it measures where there are no cgroups.
    fn report(&self, _: &Members, _: &mut Capabilities) {}

    fn begin(&mut self, id: WorkloadId, groups: &[Group]) -> Result<(), LinuxError> {
        let mut used = Used::default();
        used.at_attach = used.read(groups, 0)?.0;
        *of_slot(&mut self.used, id) = used;
        Ok(())
    }

    fn groups_changed(&mut self, id: WorkloadId) {
        let used = of_slot(&mut self.used, id);
        used.files.clear();
        used.seen = Sample::default();
    }

    fn observe(&mut self, wanted: SignalSet, members: &mut Members, view: &mut View) -> Result<(), LinuxError> {
        if !wanted.contains(Signal::RunTime) {
            return Ok(());
        }
        let is_critical = |member: &Member| member.spec.class == Class::LatencyCritical;
        let others = members.slots.iter().flatten().filter(|member| !is_critical(member)).count();
        let others_due = others <= FEW || view.now >= self.read_others + OTHERS_EVERY;
        if others_due {
            self.read_others = view.now;
        }
        let mut may_stay_open = self.may_stay_open;
        for (id, resolved) in &members.selectors {
            let Some(member) = members.get(*id).filter(|member| member.level == Level::Cgroup) else { continue };
            let used = of_slot(&mut self.used, *id);
            if others_due || is_critical(member) || used.seen.usable().is_none() {
                let (time, kept) = used.read(&resolved.groups, may_stay_open)?;
                may_stay_open -= kept;
                used.seen = Sample::exact(time, view.now);
            } else {
                may_stay_open -= used.files.iter().filter(|file| file.is_open()).count();
            }
            view.workloads.run_time[id.index()] = used.seen;
        }
        Ok(())
    }
}

impl Used {
    /// CPU time used, and the number of files kept open for the next time: at most `may_stay_open`.
    fn read(&mut self, groups: &[Group], may_stay_open: usize) -> Result<(Nanos, usize), LinuxError> {
        self.files.resize_with(groups.len(), UsageFile::default);
        let (mut sum, mut open) = (Nanos::ZERO, 0);
        for (file, group) in self.files.iter_mut().zip(groups) {
            sum += file.read(&group.path)?.unwrap_or_default();
            if open < may_stay_open {
                open += 1;
            } else {
                file.close();
            }
        }
        Ok((sum - self.at_attach, open))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use quell_model::{Class, CpuCount, Host, Selector, Signal, SignalSet, Topology, View, Workload};

    use super::*;
    use crate::testkit::FakeTree;
    use crate::{HostOptions, LinuxHost};

    fn used(tree: &FakeTree, group: &str, micros: u64) {
        fs::write(tree.path().join("cgroup").join(group).join("cpu.stat"), format!("usage_usec {micros}\n")).unwrap();
    }

    fn seen(host: &mut LinuxHost) -> Vec<Nanos> {
        let mut view = View::new(host.topology());
        host.observe(SignalSet::of(&[Signal::RunTime]), &mut view, &mut Vec::new()).unwrap();
        view.workloads.run_time.iter().map(|sample| sample.value).collect()
    }

    /// Three workloads, each a cgroup that has used 1 ms.
    fn machine() -> (FakeTree, LinuxHost) {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        for group in ["a", "b", "c"] {
            tree.cgroup(group);
            used(&tree, group, 1_000);
        }
        let mut host = tree.host(HostOptions { scan_interval: Nanos(1), ..HostOptions::default() }).unwrap();
        for group in ["a", "b", "c"] {
            let mut workload = Workload::new(group, Class::BestEffort, CpuCount::ZERO);
            workload.selectors.push(Selector::Cgroup(group.into()));
            host.attach(workload).unwrap();
        }
        (tree, host)
    }

    #[test]
    fn time_counts_from_the_attachment_whether_files_stay_open_or_not() {
        for may_stay_open in [0, 2, 100] {
            let (tree, mut host) = machine();
            host.sensors.usage.may_stay_open = may_stay_open;
            for round in 1..4u64 {
                for (at, group) in ["a", "b", "c"].into_iter().enumerate() {
                    used(&tree, group, 1_000 + round * (at as u64 + 1));
                }
                assert_eq!(seen(&mut host), [round, 2 * round, 3 * round].map(Nanos::from_micros));
            }
            let open = host.sensors.usage.used.iter().flat_map(|used| &used.files);
            assert_eq!(open.filter(|file| file.is_open()).count(), may_stay_open.min(3));
        }
    }

    #[test]
    fn many_that_are_not_latency_critical_are_read_once_a_second() {
        let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
        let mut host = tree.host(HostOptions::default()).unwrap();
        for at in 0..=FEW + 1 {
            let group = format!("w{at}");
            tree.cgroup(&group);
            used(&tree, &group, 1_000);
            let class = if at == 0 { Class::LatencyCritical } else { Class::BestEffort };
            let mut workload = Workload::new(&*group, class, CpuCount::whole(u32::from(at == 0)));
            workload.selectors.push(Selector::Cgroup(group.into()));
            host.attach(workload).unwrap();
        }
        assert!(seen(&mut host).iter().all(|used| *used == Nanos::ZERO));
        ["w0", "w1"].into_iter().for_each(|group| used(&tree, group, 3_000));
        assert_eq!(seen(&mut host)[..2], [Nanos::from_millis(2), Nanos::ZERO]);
        host.sensors.usage.read_others = Nanos::ZERO;
        assert_eq!(seen(&mut host)[..2], [Nanos::from_millis(2); 2]);
    }

    #[test]
    fn a_cgroup_that_was_made_again_is_read_anew() {
        let (tree, mut host) = machine();
        used(&tree, "b", 3_000);
        assert_eq!(seen(&mut host)[1], Nanos::from_millis(2));
        fs::remove_dir_all(tree.path().join("cgroup/b")).unwrap();
        tree.cgroup("b");
        used(&tree, "b", 9_000);
        host.members.full_look.at = None;
        assert_eq!(seen(&mut host)[1], Nanos::from_millis(8));
    }
}
