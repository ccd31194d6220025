//! Paths of cgroups, and the processes and threads in them.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::is_gone;
use crate::{LinuxError, file};

/// A cgroup that a workload's selector named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its directory.
    pub path: PathBuf,
    /// The directory's inode: a group that was removed and made again is another one. Zero while it does not exist.
    pub inode: u64,
}

impl Group {
    /// The cgroup in this directory, whether it exists or not.
    #[must_use]
    pub fn at(path: PathBuf) -> Group {
        let inode = fs::metadata(&path).map_or(0, |found| found.ino());
        Group { path, inode }
    }

    /// Looks again; true if it is another cgroup now than before.
    pub fn refresh(&mut self) -> bool {
        let inode = fs::metadata(&self.path).map_or(0, |found| found.ino());
        std::mem::replace(&mut self.inode, inode) != inode
    }

    /// Does it exist?
    #[must_use]
    pub fn exists(&self) -> bool {
        self.inode != 0
    }

    /// Has it a CPU weight and a CPU set of its own, that is: are both controllers enabled for it?
    #[must_use]
    pub fn has_controllers(&self) -> bool {
        ["cpu.weight", "cpuset.cpus"].iter().all(|name| self.path.join(name).exists())
    }
}

/// A cgroup and everything below it into which `descend` leads, parents first; nothing if it is gone. What may not be listed
/// is taken to have nothing below it.
///
/// # Errors
/// If a directory cannot be read for another reason than a missing right.
pub fn subtree(group: &Path, descend: &dyn Fn(&PathBuf) -> bool) -> Result<Vec<PathBuf>, LinuxError> {
    Ok(subtree_counted(group, descend)?.0)
}

/// As [`subtree`], with the number of directories that may not be listed.
pub(super) fn subtree_counted(
    group: &Path,
    descend: &dyn Fn(&PathBuf) -> bool,
) -> Result<(Vec<PathBuf>, usize), LinuxError> {
    let Ok(top) = fs::metadata(group) else { return Ok((Vec::new(), 0)) };
    if !top.is_dir() {
        return Ok((Vec::new(), 0));
    }
    let (mut found, mut unreadable) = (vec![group.to_owned()], 0);
    if has_no_children(&top) {
        return Ok((found, 0));
    }
    let mut next = 0;
    while let Some(directory) = found.get(next).cloned() {
        if next == 0 || !fs::metadata(&directory).is_ok_and(|below| has_no_children(&below)) {
            let listed = children(&directory)?;
            unreadable += usize::from(listed.is_none());
            found.extend(listed.into_iter().flatten().filter(descend));
        }
        next += 1;
    }
    Ok((found, unreadable))
}

/// The cgroups right below one, by name; empty if it is gone, None if this process may not list them: another user has made
/// it so.
///
/// # Errors
/// If the directory cannot be read for another reason.
pub(super) fn children(directory: &Path) -> Result<Option<Vec<PathBuf>>, LinuxError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Some(Vec::new())),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(LinuxError::io("list", directory)(error)),
    };
    let mut children: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    children.sort_unstable();
    Ok(Some(children))
}

/// A directory has a link from its parent, one from itself and one from each child. To list the many files of a cgroup
/// costs more than all else that is asked of it. (A file system that does not count says 1.)
fn has_no_children(directory: &fs::Metadata) -> bool {
    directory.nlink() == 2
}

/// Members of a cgroup itself, not of its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole processes.
    Processes,
    /// Single threads: the cgroup is a threaded one, for which the kernel lists no processes (EOPNOTSUPP).
    Threads,
}

/// Appends the processes in a cgroup itself, or its threads if it is a threaded one; says which.
///
/// # Errors
/// If the file cannot be read or understood.
pub fn members(group: &Path, into: &mut Vec<i32>) -> Result<Kind, LinuxError> {
    let (mut path, mut kind) = (group.join("cgroup.procs"), Kind::Processes);
    let text = match file::read(&path) {
        Ok(Some(text)) => Some(text),
        // Another user owns this cgroup and has closed it.
        Err(LinuxError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => return Ok(kind),
        Err(error) if !is_of_threads(&error) => return Err(error),
        _ => {
            (path, kind) = (group.join("cgroup.threads"), Kind::Threads);
            file::read(&path)?
        }
    };
    for line in text.unwrap_or_default().lines() {
        // A zero is a process of another pid namespace: it has no number here.
        match line.parse::<i32>() {
            Ok(0) => {}
            Ok(number) => into.push(number),
            Err(_) => return Err(LinuxError::parse(&path, line, "process numbers")),
        }
    }
    Ok(kind)
}

fn is_of_threads(error: &LinuxError) -> bool {
    matches!(error, LinuxError::Io { source, .. } if source.raw_os_error() == Some(libc::EOPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_had_no_children_is_looked_into_when_it_has_one() {
        let root = tempfile::tempdir().unwrap();
        let pod = root.path().join("pod");
        fs::create_dir(&pod).unwrap();
        fs::write(pod.join("cgroup.procs"), "").unwrap();
        let all = || subtree(&pod, &|_| true).unwrap();
        assert_eq!(all(), std::slice::from_ref(&pod));
        let inner = pod.join("container").join("inner");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(all(), [pod.clone(), pod.join("container"), inner]);
        fs::remove_dir_all(pod.join("container")).unwrap();
        assert_eq!(all(), std::slice::from_ref(&pod));
        fs::remove_dir_all(&pod).unwrap();
        assert!(all().is_empty());
    }
}
