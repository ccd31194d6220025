//! Cgroups of ours, of either version, that are removed when they are dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quell_model::Nanos;

use crate::GapError;

/// Kubernetes' translation of one requested CPU (rkube-socc21 §2.2): `cpu.shares` is 1024 times the request.
const SHARES_A_CPU: u32 = 1024;
/// The same share in version 2, whose default weight is 100.
const WEIGHT_A_CPU: u32 = 100;
/// A group's name before its owner's process number.
const NAME: &str = "quell-gap-";
const HIGHEST_SHARES: u32 = 262_144;
const HIGHEST_WEIGHT: u32 = 10_000;

/// A cgroup hierarchy with the cpu controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    root: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A cgroup that ends with this value, unless processes of others are in it.
#[derive(Debug)]
pub(crate) struct Group {
    path: PathBuf,
    version: Version,
}

fn write(path: &Path, value: &str) -> Result<(), GapError> {
    fs::write(path, value).map_err(|source| GapError::Write { path: path.to_owned(), value: value.to_owned(), source })
}

impl Hierarchy {
    /// The machine's, if we may make groups in it.
    pub fn find() -> Option<Hierarchy> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let hierarchy = Hierarchy::among(&mounts)?;
        // A trial that leaves nothing behind: a mount may be read-only for several reasons.
        let trial = hierarchy.root.join(format!("quell-trial-{}", std::process::id()));
        fs::create_dir(&trial).ok()?;
        let controlled = trial.join(hierarchy.version.weight_file()).exists();
        fs::remove_dir(&trial).ok()?;
        controlled.then_some(hierarchy)
    }

    /// The one with the cpu controller: version 1 says so in its mount options, version 2 in a file.
    fn among(mounts: &str) -> Option<Hierarchy> {
        let parsed = mounts.lines().filter_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            Some((PathBuf::from(mount.split(' ').nth(4)?), kind))
        });
        parsed
            .filter_map(|(root, kind)| {
                let mut words = kind.split(' ');
                match words.next()? {
                    "cgroup" if words.next_back()?.split(',').any(|option| option == "cpu") => {
                        Some(Hierarchy { root, version: Version::One })
                    }
                    "cgroup2" => Some(Hierarchy { root, version: Version::Two }),
                    _ => None,
                }
            })
            .min_by_key(|hierarchy| hierarchy.version == Version::Two)
    }

    /// A group of the highest weight, which others stand back from.
    pub fn around(&self) -> Result<Group, GapError> {
        self.remove_left_over();
        let group = Group::create(self.root.join(format!("{NAME}{}", std::process::id())), self.version)?;
        match self.version {
            Version::One => write(&group.path.join("cpu.shares"), &HIGHEST_SHARES.to_string())?,
            Version::Two => {
                write(&group.path.join("cpu.weight"), &HIGHEST_WEIGHT.to_string())?;
                write(&group.path.join("cgroup.subtree_control"), "+cpu")?;
            }
        }
        Ok(group)
    }
}

impl Hierarchy {
    /// Removes the empty groups of a run that was killed.
    fn remove_left_over(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse::<u32>().ok());
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
                for child in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                    let _ = fs::remove_dir(child.path());
                }
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

impl Version {
    fn weight_file(self) -> &'static str {
        match self {
            Version::One => "cpu.shares",
            Version::Two => "cpu.weight",
        }
    }
}

impl Group {
    fn create(path: PathBuf, version: Version) -> Result<Group, GapError> {
        match fs::create_dir(&path) {
            Ok(()) => Ok(Group { path, version }),
            Err(source) => Err(GapError::Write { path, value: "(a new cgroup)".into(), source }),
        }
    }

    /// A group in this one with the weight of this many requested CPUs.
    pub fn group(&self, name: &str, cpus: u32) -> Result<Group, GapError> {
        let group = Group::create(self.path.join(name), self.version)?;
        let weight = match self.version {
            Version::One => cpus * SHARES_A_CPU,
            Version::Two => cpus * WEIGHT_A_CPU,
        };
        write(&group.path.join(self.version.weight_file()), &weight.to_string())?;
        Ok(group)
    }

    /// Caps the group at this many CPUs in each period.
    pub fn cap(&self, cpus: u32, period: Nanos) -> Result<(), GapError> {
        self.limit(Nanos(period.0 * u64::from(cpus)), period)
    }

    /// Caps the group at this much CPU time in each period.
    pub fn limit(&self, quota: Nanos, period: Nanos) -> Result<(), GapError> {
        let (quota, period) = (quota.0 / 1000, period.0 / 1000);
        match self.version {
            Version::One => {
                write(&self.path.join("cpu.cfs_period_us"), &period.to_string())?;
                write(&self.path.join("cpu.cfs_quota_us"), &quota.to_string())
            }
            Version::Two => write(&self.path.join("cpu.max"), &format!("{quota} {period}")),
        }
    }

    /// Puts a process of ours into the group.
    pub fn admit(&self, pid: i32) -> Result<(), GapError> {
        write(&self.path.join("cgroup.procs"), &pid.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that was just waited for may still be counted for a moment.
        for _ in 0..50 {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {}
                _ => return,
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_with_the_cpu_controller_is_found() {
        let hybrid = "30 23 0:26 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n\
                      31 23 0:27 / /cg/unified rw - cgroup2 cgroup2 rw\n\
                      32 23 0:28 / /cg/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n";
        assert_eq!(Hierarchy::among(hybrid).unwrap(), Hierarchy { root: "/cg/cpu".into(), version: Version::One });
        let unified = "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(
            Hierarchy::among(unified).unwrap(),
            Hierarchy { root: "/sys/fs/cgroup".into(), version: Version::Two }
        );
        assert_eq!(Hierarchy::among("1 2 0:3 / /proc rw - proc proc rw\n"), None);
    }

    #[test]
    fn groups_of_a_killed_run_are_removed_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        // No process has this number: it is above the kernel's highest limit.
        let (left, ours, foreign) = ("quell-gap-4194305", format!("quell-gap-{}", std::process::id()), "quell-gap-x");
        for name in [&format!("{left}/target"), &ours, foreign] {
            fs::create_dir_all(root.path().join(name)).unwrap();
        }
        Hierarchy { root: root.path().to_owned(), version: Version::One }.remove_left_over();
        assert!(!root.path().join(left).exists());
        assert!(root.path().join(&ours).exists() && root.path().join(foreign).exists());
    }

    #[test]
    fn groups_say_what_they_weigh_and_are_capped_at_in_both_versions() {
        for (version, weight, cap) in [
            (Version::One, ("cpu.shares", "2048"), ("cpu.cfs_quota_us", "200000")),
            (Version::Two, ("cpu.weight", "200"), ("cpu.max", "200000 100000")),
        ] {
            let root = tempfile::tempdir().unwrap();
            let around = Hierarchy { root: root.path().to_owned(), version }.around().unwrap();
            let group = around.group("neighbour", 2).unwrap();
            group.cap(2, Nanos::from_millis(100)).unwrap();
            for (file, value) in [weight, cap] {
                assert_eq!(fs::read_to_string(group.path.join(file)).unwrap(), value);
            }
            // Plain files, unlike a cgroup's, keep a directory from being removed.
            fs::remove_dir_all(&around.path).unwrap();
        }
    }
}
