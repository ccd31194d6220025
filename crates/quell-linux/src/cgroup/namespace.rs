//! The cgroup namespace (cgroup_namespaces(7)): in one of its own a process reads of others' cgroups only the way from its own.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Moves the calling thread into the cgroup namespace of process 1, where that is another one: a container that has the host's processes
/// (`hostPID`) has a cgroup namespace of its own all the same. Returns whether it was another one. To be called before there is a second
/// thread: that would remain where it is.
///
/// # Errors
/// If it may not: this takes CAP_SYS_ADMIN, and CAP_SYS_PTRACE for the look at process 1.
pub fn join_that_of_process_1(proc: &Path) -> io::Result<bool> {
    let of = |process: &str| proc.join(process).join("ns/cgroup");
    let first = File::open(of("1"))?;
    if first.metadata()?.ino() == fs::metadata(of("self"))?.ino() {
        return Ok(false);
    }
    move_into_link_name_space(first.as_fd(), Some(LinkNameSpaceType::ControlGroup))?;
    Ok(true)
}
