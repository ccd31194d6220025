//! CPU time of a workload's cgroups.

use quell_model::Nanos;

use crate::LinuxError;
use crate::cgroup::{Group, UsageFile};

/// CPU time that a workload's cgroups used since it attached.
#[derive(Debug)]
pub(super) struct Usage {
    at_attach: Nanos,
    /// By cgroup.
    files: Vec<UsageFile>,
}

impl Usage {
    /// Counts from now on.
    pub fn begin(groups: &[Group]) -> Result<Usage, LinuxError> {
        let mut usage = Usage { at_attach: Nanos::ZERO, files: Vec::new() };
        usage.at_attach = usage.read(groups, 0)?.0;
        Ok(usage)
    }

    /// CPU time used, and how many files it kept open for the next time: at most `may_stay_open`.
    pub fn read(&mut self, groups: &[Group], may_stay_open: usize) -> Result<(Nanos, usize), LinuxError> {
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

    /// The cgroups are others now.
    pub fn groups_changed(&mut self) {
        self.files.clear();
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
            host.may_stay_open = may_stay_open;
            for round in 1..4u64 {
                for (at, group) in ["a", "b", "c"].into_iter().enumerate() {
                    used(&tree, group, 1_000 + round * (at as u64 + 1));
                }
                assert_eq!(seen(&mut host), [round, 2 * round, 3 * round].map(Nanos::from_micros));
            }
            let open = host.slots.iter().flatten().flat_map(|managed| &managed.usage.files);
            assert_eq!(open.filter(|file| file.is_open()).count(), may_stay_open.min(3));
        }
    }

    #[test]
    fn a_cgroup_that_was_made_again_is_read_anew() {
        let (tree, mut host) = machine();
        used(&tree, "b", 3_000);
        assert_eq!(seen(&mut host)[1], Nanos::from_millis(2));
        fs::remove_dir_all(tree.path().join("cgroup/b")).unwrap();
        tree.cgroup("b");
        used(&tree, "b", 9_000);
        host.full_look.at = None;
        assert_eq!(seen(&mut host)[1], Nanos::from_millis(8));
    }
}
