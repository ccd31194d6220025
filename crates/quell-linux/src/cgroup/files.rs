//! The knobs of a cgroup: read in one form, written with the fix for the refusals that are known.

use std::path::Path;
use std::{fs, io};

use quell_model::CpuSet;

use crate::error::is_gone;
use crate::file::Written;
use crate::{LinuxError, file};

const PARTITION: &str = "cpuset.cpus.partition";
const MEMORY_NODES: &str = "cpuset.mems";
/// The CPUs that this machine can ever have. A plain path: only a real kernel refuses an empty list, which makes it
/// necessary.
const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";

/// A file's value without surrounding white space, CPU lists in the kernel's form; None if it is not there.
///
/// # Errors
/// If it cannot be read or understood.
pub fn read_file(path: &Path) -> Result<Option<String>, LinuxError> {
    let Some(text) = file::read(path)? else { return Ok(None) };
    if holds_cpus(path) {
        let cpus: CpuSet = text.parse().map_err(|_| LinuxError::parse(path, &text, "a CPU list"))?;
        return Ok(Some(cpus.to_string()));
    }
    if name(path) == "preempt" {
        return Ok(Some(crate::debugfs::preempt::chosen(&text).unwrap_or(&text).to_owned()));
    }
    Ok(Some(text))
}

/// Writes a value. A partition is read back: the kernel takes the word and says only there that it is not valid. An
/// empty CPU list, which the kernel refuses while threads are in the cgroup, is replaced by one that has its effect.
///
/// # Errors
/// If the kernel refuses the value.
pub fn write_file(path: &Path, text: &str) -> Result<Written, LinuxError> {
    match file::write(path, text) {
        Ok(()) if name(path) == PARTITION => verify_partition(path, text),
        Ok(()) => Ok(Written::Done),
        // A controller that the parent does not give is "not found" too.
        Err(error) if is_gone(&error) && !path.exists() => Ok(Written::Vanished),
        Err(source) => {
            if text.is_empty() && source.raw_os_error() == Some(libc::ENOSPC) && open(path)? {
                return Ok(Written::Done);
            }
            let fix = fix_of(name(path), &source);
            Err(LinuxError::Cgroup { path: path.to_owned(), value: text.to_owned(), source, fix })
        }
    }
}

/// Gives a cgroup all that its parent has, as an empty list would.
fn open(path: &Path) -> Result<bool, LinuxError> {
    if name(path) != MEMORY_NODES {
        return open_cpus(path);
    }
    let parent = path.parent().and_then(Path::parent).unwrap_or(path);
    let nodes = file::read(&parent.join("cpuset.mems.effective"))?.unwrap_or_default();
    Ok(!nodes.is_empty() && file::write(path, &nodes).is_ok())
}

/// Gives a cgroup all CPUs that its parent has now or ever, as an empty list would: a list may go beyond the parent's.
/// A sibling's partition would end if the list had its CPUs.
fn open_cpus(path: &Path) -> Result<bool, LinuxError> {
    let read = |list: &Path| -> Result<CpuSet, LinuxError> { Ok(read_file(list)?.unwrap_or_default().parse()?) };
    let mut cpus: CpuSet = file::read(Path::new(POSSIBLE_CPUS))?.unwrap_or_default().parse()?;
    let (group, parent) = (path.parent().unwrap_or(path), path.parent().and_then(Path::parent).unwrap_or(path));
    for sibling in fs::read_dir(parent).map_err(LinuxError::io("list", parent))?.flatten() {
        if sibling.path() != group {
            cpus = cpus.difference(&read(&sibling.path().join("cpuset.cpus.exclusive.effective"))?);
        }
    }
    Ok(!cpus.is_empty() && file::write(path, &cpus.to_string()).is_ok())
}

/// Did the partition become valid as written?
///
/// # Errors
/// [`LinuxError::Partition`] with the kernel's text, such as `root invalid (Cpu list in cpuset.cpus not exclusive)`.
pub fn verify_partition(path: &Path, text: &str) -> Result<Written, LinuxError> {
    let Some(verdict) = file::read(path)? else { return Ok(Written::Vanished) };
    if verdict == text {
        return Ok(Written::Done);
    }
    let fix = "its CPUs must belong to no other cgroup's cpuset.cpus.exclusive, must all be online, and must leave its \
                parent at least one; on kernels before 6.7 its parent must be a partition too";
    Err(LinuxError::Partition { path: path.to_owned(), value: text.to_owned(), verdict, fix })
}

fn fix_of(name: &str, error: &io::Error) -> &'static str {
    match (name, error.raw_os_error()) {
        (_, Some(libc::EACCES | libc::EPERM | libc::EROFS)) => "run as root, or have the cgroup delegated to this user",
        ("cpu.weight", Some(libc::EINVAL)) => "cpu.idle is 1 there, which fixes the weight; write 0 to cpu.idle first",
        ("cpu.weight", Some(libc::ERANGE)) => "choose a weight from 1 to 10000",
        ("cpu.max", Some(libc::EINVAL)) => {
            "a quota is at least 1000 us in a period of 1000 to 1000000 us, and not below cpu.max.burst"
        }
        ("cpuset.cpus.exclusive", Some(libc::EINVAL)) => {
            "the CPUs must be in the parent's cpuset.cpus.exclusive and in no sibling's"
        }
        ("cpuset.cpus", Some(libc::EINVAL | libc::ERANGE)) => {
            "the CPUs must exist, and belong to no sibling's partition"
        }
        ("cpuset.cpus", Some(libc::EBUSY)) => {
            "threads run there and would have no CPU left (deadline tasks are bound to their CPUs); leave them one"
        }
        ("cpuset.mems", Some(libc::EINVAL | libc::ERANGE)) => "the nodes must have memory",
        ("cpuset.cpus", Some(libc::ENOSPC)) => "the cgroup holds threads: its CPU list must not be empty",
        ("cgroup.subtree_control", Some(libc::EBUSY)) => {
            "the cgroup holds processes itself: move them to a child first (systemd: Delegate=yes and a sub-group)"
        }
        ("cgroup.subtree_control", Some(libc::ENOENT)) => "its parent does not enable that controller for it",
        _ => "see Documentation/admin-guide/cgroup-v2.rst",
    }
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

fn holds_cpus(path: &Path) -> bool {
    matches!(
        name(path),
        "cpuset.cpus" | "cpuset.cpus.exclusive" | "cpuset.cpus.effective" | "cpuset.cpus.exclusive.effective"
    )
}
