use std::fs;
use std::path::{Path, PathBuf};

/// Mount points of the pseudo-filesystems, and the way to systemd. Tests put trees of plain files in a temporary directory here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// procfs.
    pub proc: PathBuf,
    /// sysfs.
    pub sys: PathBuf,
    /// The cgroup v2 hierarchy. It need not exist.
    pub cgroup: PathBuf,
    /// `/run`.
    pub run: PathBuf,
    /// The program that asks systemd. It need not exist.
    pub systemctl: PathBuf,
}

impl Default for Roots {
    /// `/proc`, `/sys`, and cgroup v2 where this machine has it: `/sys/fs/cgroup`, or `/sys/fs/cgroup/unified` on
    /// hosts that mount both versions.
    fn default() -> Roots {
        let cgroup = fs::read_to_string("/proc/self/mountinfo").ok().and_then(|mounts| cgroup2_mount(&mounts));
        let cgroup = cgroup.unwrap_or_else(|| "/sys/fs/cgroup".into());
        let (run, systemctl) = ("/run".into(), "/usr/bin/systemctl".into());
        Roots { proc: "/proc".into(), sys: "/sys".into(), cgroup, run, systemctl }
    }
}

impl Roots {
    /// The trees of a machine under one directory: `proc`, `sys`, `cgroup` and `run` in it.
    #[must_use]
    pub fn under(directory: &Path) -> Roots {
        let [proc, sys, cgroup, run, systemctl] =
            ["proc", "sys", "cgroup", "run", "systemctl"].map(|name| directory.join(name));
        Roots { proc, sys, cgroup, run, systemctl }
    }

    /// Are these the running machine's own processes? Otherwise no system call may be made about a thread number
    /// that was found there.
    #[must_use]
    pub fn is_this_machine(&self) -> bool {
        self.proc == Path::new("/proc")
    }
}

/// The first mount of the type cgroup2 (proc_pid_mountinfo(5): the type follows the separator " - ").
fn cgroup2_mount(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if !kind.starts_with("cgroup2 ") {
            return None;
        }
        mount.split(' ').nth(4).map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_cgroup_mount_on_hybrid_hosts() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 23 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:3 - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup2_mount(mounts).unwrap(), Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(cgroup2_mount("1 2 0:3 / /proc rw - proc proc rw\n"), None);
    }
}
