//! A cgroup that Quell makes for a command, which holds it to a quota where a cpu controller is: of cgroup v2, or of v1.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quell_model::{CpuCount, Knob, foreign};
use serde::{Deserialize, Serialize};

use super::version1::{CpuV1, has};
use crate::file::Written;
use crate::{LinuxError, Roots, cgroup, file};

/// A cgroup of Quell's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OwnGroup {
    /// Its directory.
    pub path: PathBuf,
    /// The cgroup that its processes go to when it is removed.
    pub home: PathBuf,
}

/// The cpu controller that a cgroup of Quell's own would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Of version 2: the cgroup is made beside Quell's own, and what is above both gives it the controller.
    V2(OwnGroup),
    /// Of version 1: the cgroup is made below Quell's own.
    V1(OwnGroup),
}

/// A quota's period, in µs …
const PERIOD: u64 = 100_000;
/// … and that of a small quota, which the kernel takes from 1,000 µs on.
const LONG_PERIOD: u64 = 1_000_000;
/// A quota counts as small below this part of the usual period.
const SMALL: u32 = 50;
/// Tries to remove a cgroup whose processes may fork meanwhile …
const TRIES: u32 = 200;
/// … with this pause.
const PAUSE: Duration = Duration::from_millis(5);

impl Controller {
    /// The controller for a cgroup of this name; the error says why there is none, with the fix.
    ///
    /// # Errors
    /// If this machine has no cpu controller, or Quell may not use it.
    pub fn find(roots: &Roots, name: &str) -> Result<Controller, String> {
        let own = fs::read_to_string(roots.proc.join("self/cgroup")).unwrap_or_default();
        let below = |root: &Path, path: &str| root.join(path.trim_start_matches('/'));
        if cgroup::controllers_here(&roots.cgroup).ok().flatten().is_some_and(|names| has("cpu", &names)) {
            let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
            let home = below(&roots.cgroup, path);
            // Beside it: what holds above both holds for the command, and a cgroup with processes has no children with limits.
            let parent = home.parent().filter(|_| home != roots.cgroup).unwrap_or(&roots.cgroup);
            if let Some(limit) = limit_of(&home).filter(|_| home != roots.cgroup) {
                let limit = foreign::path(&limit);
                return Err(format!(
                    "the new cgroup would be beside Quell's, whose {limit} would not apply there; start quell from a cgroup without \
                     one (systemd-run --scope), or leave --limit out"
                ));
            }
            if !cgroup::controllers_here(parent).ok().flatten().is_some_and(|names| has("cpu", &names)) {
                let parent = foreign::path(parent);
                return Err(format!("{parent} has no cpu controller; enable it in its parent, or leave --limit out"));
            }
            let group = OwnGroup { path: parent.join(name), home };
            return group.may_be_made().map(|()| Controller::V2(group));
        }
        let Some(v1) = CpuV1::find(roots) else {
            return Err("this machine has no cpu controller for cgroups; boot with systemd.unified_cgroup_hierarchy=1, or leave \
                        the limit out"
                .into());
        };
        let home = v1.group_in(&own);
        let group = OwnGroup { path: home.join(name), home };
        group.may_be_made().map(|()| Controller::V1(group))
    }

    /// The cgroup.
    #[must_use]
    pub fn group(&self) -> &OwnGroup {
        match self {
            Controller::V2(group) | Controller::V1(group) => group,
        }
    }

    /// The file that keeps the quota.
    #[must_use]
    pub fn quota_file(&self) -> PathBuf {
        self.group().path.join(match self {
            Controller::V2(_) => "cpu.max",
            Controller::V1(_) => "cpu.cfs_quota_us",
        })
    }

    /// The cgroup that has to give the controller to its children.
    #[must_use]
    pub fn giver(&self) -> Option<&Path> {
        match self {
            Controller::V2(group) => group.path.parent(),
            Controller::V1(_) => None,
        }
    }

    /// Writes the quota. No record of it is kept: it goes with the cgroup.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn limit(&self, limit: CpuCount) -> Result<(), LinuxError> {
        if limit < Knob::LEAST_QUOTA {
            let what = format!("the kernel accepts no quota below {} CPUs", Knob::LEAST_QUOTA);
            return Err(LinuxError::unsupported(what, "raise it"));
        }
        let period = if limit < CpuCount(SMALL) { LONG_PERIOD } else { PERIOD };
        let quota = u64::from(limit.0) * period / 1000;
        let written = match self {
            Controller::V2(_) => cgroup::write_file(&self.quota_file(), &format!("{quota} {period}"))?,
            Controller::V1(group) => {
                cgroup::write_file(&group.path.join("cpu.cfs_period_us"), &period.to_string())?;
                cgroup::write_file(&self.quota_file(), &quota.to_string())?
            }
        };
        match written {
            Written::Done => self.holds(),
            Written::Vanished => Err(self.is_gone()),
        }
    }

    /// Is there a quota? Another Quell's end may take the controller away.
    ///
    /// # Errors
    /// If not.
    pub fn holds(&self) -> Result<(), LinuxError> {
        let text = file::read(&self.quota_file())?.unwrap_or_default();
        let is_quota = text.starts_with(|first: char| first.is_ascii_digit());
        if is_quota { Ok(()) } else { Err(self.is_gone()) }
    }

    fn is_gone(&self) -> LinuxError {
        let file = foreign::path(&self.quota_file());
        LinuxError::unsupported(format!("the cpu controller was disabled: {file} holds no quota"), "start it again")
    }
}

impl OwnGroup {
    fn may_be_made(&self) -> Result<(), String> {
        let parent = self.path.parent().unwrap_or(&self.path);
        rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).map_err(|errno| {
            let error = io::Error::from(errno);
            format!("cannot create a cgroup in {}: {error}; run as root, or leave the limit out", foreign::path(parent))
        })
    }

    /// Moves a process into it.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn join(&self, pid: i32) -> Result<(), LinuxError> {
        cgroup::write_file(&self.path.join("cgroup.procs"), &pid.to_string()).map(|_| ())
    }

    /// Is it there? None: nor can it be.
    #[must_use]
    pub fn is_there(&self) -> Option<bool> {
        self.path.parent()?.is_dir().then(|| self.path.is_dir())
    }

    /// Where its processes go: home, or if that is gone, this process's own cgroup, or the root. (One that gives a controller to its
    /// children takes no process.)
    fn homes(&self) -> Vec<PathBuf> {
        let root = self.path.ancestors().skip(1).filter(|above| above.join("cgroup.procs").exists()).last();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let path = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let others = root.map(|root| [root.join(path), root.to_owned()]);
        std::iter::once(self.home.clone()).chain(others.into_iter().flatten()).collect()
    }

    /// Makes it; or moves its processes home and removes it.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn set(&self, there: bool) -> Result<Written, LinuxError> {
        if there {
            fs::create_dir(&self.path).map_err(LinuxError::io("make", &self.path))?;
            return Ok(Written::Done);
        }
        let mut refused = io::ErrorKind::Other.into();
        for _ in 0..TRIES {
            let members = file::read(&self.path.join("cgroup.procs")).ok().flatten().unwrap_or_default();
            for pid in members.split_whitespace() {
                // One that ends meanwhile is gone; what keeps another one here shows below.
                let _ = self.homes().into_iter().any(|home| file::write(&home.join("cgroup.procs"), pid).is_ok());
            }
            match fs::remove_dir(&self.path) {
                Ok(()) => return Ok(Written::Done),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Written::Vanished),
                Err(error) => refused = error,
            }
            std::thread::sleep(PAUSE);
        }
        Err(LinuxError::io("remove", &self.path)(refused))
    }
}

/// A file with a limit of this cgroup alone, which holds for none beside it. systemd gives nearly each a number of tasks: that is
/// no reason.
fn limit_of(group: &Path) -> Option<PathBuf> {
    let files = |names: &[&str]| names.iter().map(|name| group.join(name)).collect::<Vec<_>>();
    let text = |file: &PathBuf| file::read(file).ok().flatten().unwrap_or_default();
    let is_set = |file: &PathBuf| !text(file).is_empty();
    let sets = files(&["cpuset.cpus", "cpuset.mems", "io.max"]);
    let numbers = files(&["cpu.max", "memory.max", "memory.high", "memory.swap.max"]);
    let mut limits = sets.into_iter().filter(is_set);
    limits.next().or_else(|| numbers.into_iter().find(|file| is_set(file) && !text(file).starts_with("max")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.replace("ROOT", root.path().to_str().unwrap())).unwrap();
        }
        let roots = Roots::under(root.path());
        (root, roots)
    }

    #[test]
    fn the_second_version_comes_first_and_a_process_goes_back_to_where_it_was() {
        let (_root, roots) = machine(&[
            ("cgroup/cgroup.controllers", "cpuset cpu io\n"),
            ("cgroup/user.slice/cgroup.controllers", "cpuset cpu io\n"),
            ("cgroup/user.slice/session-1.scope/pids.max", "max\n"),
            ("proc/self/cgroup", "0::/user.slice/session-1.scope\n"),
        ]);
        let found = Controller::find(&roots, "quell-exec-1").unwrap();
        let home = roots.cgroup.join("user.slice/session-1.scope");
        assert_eq!(found, Controller::V2(OwnGroup { path: roots.cgroup.join("user.slice/quell-exec-1"), home }));
        assert_eq!(found.giver(), Some(roots.cgroup.join("user.slice").as_path()));
    }

    #[test]
    fn a_limit_of_quells_own_cgroup_is_not_escaped_from() {
        let (_root, roots) = machine(&[
            ("cgroup/cgroup.controllers", "cpu\n"),
            ("cgroup/jobs/cgroup.controllers", "cpu\n"),
            ("cgroup/jobs/one/pids.max", "100\n"),
            ("cgroup/jobs/one/cpuset.cpus", "\n"),
            ("cgroup/jobs/one/cpu.max", "max 100000\n"),
            ("cgroup/jobs/one/memory.max", "1048576\n"),
            ("proc/self/cgroup", "0::/jobs/one\n"),
        ]);
        let why = Controller::find(&roots, "quell-exec-1").unwrap_err();
        assert!(why.contains("jobs/one/memory.max"), "{why}");
        fs::write(roots.cgroup.join("jobs/one/memory.max"), "max\n").unwrap();
        assert!(Controller::find(&roots, "quell-exec-1").is_ok(), "a number of tasks is no reason");
        fs::write(roots.cgroup.join("jobs/one/cpuset.cpus"), "0-1\n").unwrap();
        assert!(Controller::find(&roots, "quell-exec-1").unwrap_err().contains("cpuset.cpus"));
        fs::write(roots.cgroup.join("jobs/one/cpuset.cpus"), "\n").unwrap();
        fs::write(roots.cgroup.join("jobs/cgroup.controllers"), "memory\n").unwrap();
        assert!(Controller::find(&roots, "quell-exec-1").unwrap_err().contains("jobs has no cpu controller"));
    }

    #[test]
    fn the_first_version_is_below_quells_own_cgroup() {
        let (root, roots) = machine(&[
            ("cgroup/cgroup.controllers", "\n"),
            ("proc/self/cgroup", "3:cpuset:/a\n2:cpu,cpuacct:/jobs/me\n0::/\n"),
            ("proc/self/mountinfo", "30 23 0:26 / ROOT/v1 rw - cgroup cgroup rw,cpuacct,cpu\n"),
            ("v1/jobs/me/cpu.shares", "1024\n"),
        ]);
        let home = root.path().join("v1/jobs/me");
        let found = Controller::find(&roots, "quell-exec-1").unwrap();
        assert_eq!(found, Controller::V1(OwnGroup { path: home.join("quell-exec-1"), home: home.clone() }));
        assert_eq!(found.group().set(true).unwrap(), Written::Done);
        for file in ["cpu.cfs_period_us", "cpu.cfs_quota_us"] {
            fs::write(home.join("quell-exec-1").join(file), "-1").unwrap();
        }
        found.limit(CpuCount(500)).unwrap();
        assert_eq!(fs::read_to_string(found.quota_file()).unwrap().trim(), "50000");
        found.limit(CpuCount(10)).unwrap();
        assert_eq!(fs::read_to_string(found.quota_file()).unwrap().trim(), "10000", "of a second");
    }

    #[test]
    fn without_a_controller_it_is_said_why() {
        let (_root, roots) = machine(&[("proc/self/cgroup", "0::/\n"), ("proc/self/mountinfo", "")]);
        assert!(Controller::find(&roots, "x").unwrap_err().contains("no cpu controller"));
    }
}
