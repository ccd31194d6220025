//! resctrl: shares of the last-level cache and of the memory's bandwidth, and their use by groups
//! (Documentation/filesystems/resctrl.rst). Other programs may have groups of their own there: Quell changes its own alone,
//! and the root's mask where the configuration allows it.

mod count;
mod group;
mod info;

pub(crate) use count::Count;
#[cfg(any(test, feature = "test-support"))]
pub(crate) use group::value_of;
pub use group::{GroupCalls, KernelGroups, Line, Membership};
pub(crate) use group::{read_line, set_group, set_line, set_member, threads};
pub(crate) use info::{Info, controls};

use std::path::{Path, PathBuf};

use quell_model::WorkloadId;

use crate::{LinuxError, Roots, file};

/// RDTGROUP_SUPER_MAGIC (include/uapi/linux/magic.h).
const MAGIC: u64 = 0x0765_5821;

/// Directories that are no control groups.
const NO_GROUPS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// The beginning of the name of a workload's own group.
pub(crate) fn own_prefix(id: WorkloadId) -> String {
    format!("quell.{}.", id.0)
}

/// The mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resctrl {
    root: PathBuf,
}

impl Resctrl {
    /// That of this machine, or of a machine of plain files; None if it is not mounted.
    pub fn find(roots: &Roots) -> Option<Resctrl> {
        Resctrl::at(&roots.sys.join("fs/resctrl"), roots.sys == Path::new("/sys"))
    }

    /// The one at this path. `checked`: only if the file system there is resctrl, by its magic number; sysfs has the
    /// directory, empty, where nothing is mounted.
    pub fn at(root: &Path, checked: bool) -> Option<Resctrl> {
        let is_one = match checked {
            true => rustix::fs::statfs(root).is_ok_and(|found| found.f_type as u64 == MAGIC),
            false => root.is_dir(),
        };
        is_one.then(|| Resctrl { root: root.to_owned() })
    }

    /// Where it is mounted.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Does it count `feature`, such as `mbm_total_bytes`, in the domains of the last-level caches?
    ///
    /// # Errors
    /// If that cannot be read.
    pub fn counts(&self, feature: &str) -> Result<bool, LinuxError> {
        let features = file::read(&self.root.join("info/L3_MON/mon_features"))?.unwrap_or_default();
        Ok(features.lines().any(|known| known == feature))
    }

    /// The control groups: the root, and the directories in it that have files of their own.
    pub fn groups(&self) -> Vec<PathBuf> {
        let names = file::names(&self.root).unwrap_or_default();
        let groups = names.iter().filter(|name| !NO_GROUPS.contains(&name.as_str()));
        let groups = groups.map(|name| self.root.join(name)).filter(|path| path.is_dir());
        std::iter::once(self.root.clone()).chain(groups).collect()
    }

    /// A control group's files that count `feature`, one a domain. They include the counts of its monitoring groups.
    pub fn counted(group: &Path, feature: &str) -> Vec<PathBuf> {
        let data = group.join("mon_data");
        let names = file::names(&data).unwrap_or_default();
        let domains = names.iter().filter(|name| name.starts_with("mon_L3_"));
        domains.map(|domain| data.join(domain).join(feature)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_no_resctrl_is_none() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Resctrl::at(directory.path(), false).is_some(), "a machine of plain files");
        assert_eq!(Resctrl::at(directory.path(), true), None);
        assert_eq!(Resctrl::at(&directory.path().join("nothing"), false), None);
    }
}
