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
}

/// One of the two.
#[derive(Clone, Debug)]
pub(super) struct Group(PathBuf);

/// Into a file that is there: elsewhere than in control groups of version 2 none is made.
fn write(path: &Path, value: &str) -> Result<()> {
    let written = OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(Error::file("write", path))
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
        write(&root.join("cgroup.subtree_control"), "+cpu +cpuset")?;
        let base = root.join(format!("quell-effect-{}", std::process::id()));
        fs::create_dir(&base).map_err(Error::file("make", &base))?;
        let groups = Groups { base, before };
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
        for path in [self.watched().0, self.other().0, self.base.clone()] {
            // Its threads have ended; the kernel may still count them.
            for _ in 0..100 {
                match fs::remove_dir(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {}
                    _ => break,
                }
                thread::sleep(Duration::from_millis(10));
            }
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
}
