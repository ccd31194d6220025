//! Two control groups for single threads of this process.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::{Error, Result};

/// Where version 2 is mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// The groups; this process is around them until this is dropped.
pub(super) struct Groups {
    base: PathBuf,
    before: PathBuf,
    /// The controllers that the root gave its children before.
    given: String,
}

/// What the names of the groups of all such processes begin with; the process's number follows.
const NAME: &str = "quell-effect-";

/// One of the two.
#[derive(Clone, Debug)]
pub(super) struct Group(PathBuf);

/// Into a file that is there: elsewhere than in control groups of version 2 none is made.
fn write(path: &Path, value: &str) -> Result<()> {
    let written = OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(Error::file("write", path))
}

/// Removes the groups of such processes that were killed.
fn sweep(root: &Path) -> Result<()> {
    for entry in fs::read_dir(root).map_err(Error::file("read", root))?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(NAME)) else { continue };
        if !Path::new("/proc").join(pid).exists() {
            remove(&entry.path());
        }
    }
    Ok(())
}

/// Removes a group and those in it. Its threads have ended; the kernel may still count them.
fn remove(base: &Path) {
    for path in [base.join("watched"), base.join("other"), base.to_owned()] {
        for _ in 0..100 {
            match fs::remove_dir(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {}
                _ => break,
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// What takes back those of both controllers that were not given before: `-cpu`, for `cpuset io`.
fn taken_back(given: &str) -> Vec<String> {
    let both = ["cpu", "cpuset"].iter();
    both.filter(|name| given.split_whitespace().all(|one| one != **name)).map(|name| format!("-{name}")).collect()
}

/// Refuses a root without both controllers.
fn check(root: &Path) -> Result<()> {
    let path = root.join("cgroup.controllers");
    let has = fs::read_to_string(&path).unwrap_or_default();
    match ["cpu", "cpuset"].iter().all(|name| has.split_whitespace().any(|one| one == *name)) {
        true => Ok(()),
        false => {
            Err(Error::Format { path, problem: "has no cpu and cpuset: control groups of version 2 are needed".into() })
        }
    }
}

impl Groups {
    /// Makes them and moves this process.
    pub fn make() -> Result<Groups> {
        let root = Path::new(ROOT);
        check(root)?;
        let own = Path::new("/proc/self/cgroup");
        let text = fs::read_to_string(own).map_err(Error::file("read", own))?;
        let before = text.lines().find_map(|line| line.strip_prefix("0::/"));
        let wrong = || Error::Format { path: own.to_owned(), problem: "has no group of version 2".into() };
        let before = root.join(before.ok_or_else(wrong)?);
        sweep(root)?;
        let control = root.join("cgroup.subtree_control");
        let given = fs::read_to_string(&control).map_err(Error::file("read", &control))?;
        write(&control, "+cpu +cpuset")?;
        let base = root.join(format!("{NAME}{}", std::process::id()));
        let groups = Groups { base, before, given };
        fs::create_dir(&groups.base).map_err(Error::file("make", &groups.base))?;
        write(&groups.base.join("cgroup.procs"), "0")?;
        for group in [groups.watched(), groups.other()] {
            fs::create_dir(&group.0).map_err(Error::file("make", &group.0))?;
            // Its threads may be in other groups than the process.
            write(&group.0.join("cgroup.type"), "threaded")?;
        }
        write(&groups.base.join("cgroup.subtree_control"), "+cpu +cpuset")?;
        Ok(groups)
    }

    pub fn watched(&self) -> Group {
        Group(self.base.join("watched"))
    }

    pub fn other(&self) -> Group {
        Group(self.base.join("other"))
    }
}

impl Group {
    /// Sets a file of it.
    pub fn set(&self, file: &str, value: &str) -> Result<()> {
        write(&self.0.join(file), value)
    }

    /// Takes a thread of this process.
    pub fn take(&self, tid: i32) -> Result<()> {
        self.set("cgroup.threads", &tid.to_string())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let _ = write(&self.before.join("cgroup.procs"), "0");
        remove(&self.base);
        for name in taken_back(&self.given) {
            // Another program may have come to need it meanwhile: then it stays.
            let _ = write(&Path::new(ROOT).join("cgroup.subtree_control"), &name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_is_none_is_refused_and_nothing_is_made_in_it() {
        let root = tempfile::tempdir().unwrap();
        assert!(check(root.path()).unwrap_err().to_string().contains("version 2"));
        let file = root.path().join("cgroup.subtree_control");
        assert!(write(&file, "+cpu").is_err() && !file.exists());
        fs::write(root.path().join("cgroup.controllers"), "cpuset cpu io").unwrap();
        check(root.path()).unwrap();
    }

    #[test]
    fn groups_of_the_dead_go_and_controllers_are_taken_back() {
        let root = tempfile::tempdir().unwrap();
        let (dead, alive) = (format!("{NAME}999999999"), format!("{NAME}{}", std::process::id()));
        for path in [format!("{dead}/watched"), alive.clone(), "other".into()] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        sweep(root.path()).unwrap();
        let is_there = |name: &str| root.path().join(name).exists();
        assert!(!is_there(&dead) && is_there(&alive) && is_there("other"));
        assert_eq!(taken_back("cpuset io"), ["-cpu"]);
        assert!(taken_back("cpuset cpu\n").is_empty());
    }
}
