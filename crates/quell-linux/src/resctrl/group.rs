//! Control groups: directories, their lines of `schemata`, and their threads.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use quell_model::ThreadId;
use serde::{Deserialize, Serialize};

use crate::error::is_gone;
use crate::file::Written;
use crate::{LinuxError, file};

/// One value of a group's `schemata`: the ways or the throttle in one domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Line {
    /// The group's directory.
    pub group: PathBuf,
    /// `L3`, `L3CODE`, `L3DATA` or `MB`.
    pub resource: String,
    /// The domain: a cache's id.
    pub domain: u32,
}

/// A thread's membership of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Membership {
    /// The group's directory.
    pub group: PathBuf,
    /// The thread.
    pub thread: ThreadId,
}

/// Changes of resctrl: the kernel's, or a fake's.
pub trait GroupCalls: fmt::Debug + Send {
    /// Makes a control group.
    ///
    /// # Errors
    /// The kernel's.
    fn make(&self, group: &Path) -> io::Result<()> {
        std::fs::create_dir(group)
    }

    /// Removes a control group; its threads are the root's again.
    ///
    /// # Errors
    /// The kernel's.
    fn remove(&self, group: &Path) -> io::Result<()> {
        std::fs::remove_dir(group)
    }

    /// Writes a line of `schemata`, such as `L3:0=ff`.
    ///
    /// # Errors
    /// The kernel's.
    fn set_line(&self, group: &Path, line: &str) -> io::Result<()> {
        file::write(&group.join("schemata"), line)
    }

    /// Moves a thread into a group.
    ///
    /// # Errors
    /// The kernel's.
    fn join(&self, group: &Path, tid: i32) -> io::Result<()> {
        file::write(&group.join("tasks"), &tid.to_string())
    }
}

/// The running kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelGroups;

impl GroupCalls for KernelGroups {}

/// The root's directory, above a group's.
fn root_of(group: &Path) -> &Path {
    let is_root = |path: &Path| path.join("info").is_dir();
    group.ancestors().find(|path| is_root(path)).unwrap_or(group)
}

/// A line's value now, in one form; None: the group is gone, or has no such line.
pub(crate) fn read_line(line: &Line) -> Result<Option<String>, LinuxError> {
    let Some(text) = file::read(&line.group.join("schemata"))? else { return Ok(None) };
    Ok(value_of(&text, &line.resource, line.domain))
}

/// A domain's value in a text of `schemata`.
pub(crate) fn value_of(schemata: &str, resource: &str, domain: u32) -> Option<String> {
    let own = schemata.lines().find_map(|line| line.trim().strip_prefix(resource)?.strip_prefix(':'))?;
    own.split(';').find_map(|part| {
        let (number, value) = part.split_once('=')?;
        (number.trim().parse() == Ok(domain)).then(|| plain(resource, value.trim()))
    })
}

/// Masks without leading zeros.
fn plain(resource: &str, value: &str) -> String {
    match u32::from_str_radix(value, 16) {
        Ok(mask) if resource != "MB" => format!("{mask:x}"),
        _ => value.to_owned(),
    }
}

/// The threads of a group, by number; None: it is gone.
pub(crate) fn threads(group: &Path) -> Result<Option<Vec<i32>>, LinuxError> {
    let Some(text) = file::read(&group.join("tasks"))? else { return Ok(None) };
    let mut threads: Vec<i32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    threads.sort_unstable();
    Ok(Some(threads))
}

/// Makes or removes a group.
pub(crate) fn set_group(calls: &dyn GroupCalls, group: &Path, there: bool) -> Result<Written, LinuxError> {
    let result = if there { calls.make(group) } else { calls.remove(group) };
    match result {
        Ok(()) => Ok(Written::Done),
        Err(error) if !there && is_gone(&error) => Ok(Written::Vanished),
        Err(source) => {
            let fix = match source.raw_os_error() {
                Some(libc::ENOSPC) => {
                    "all groups are in use (num_closids in info): put workloads together, or remove groups"
                }
                Some(libc::EACCES | libc::EPERM | libc::EROFS) => "run as root, with resctrl mounted for writing",
                Some(libc::EEXIST) => "remove the group of that name, or rename the workload",
                _ => "a group that was just removed may keep its number for a while: try again later",
            };
            Err(failed(group, if there { "a new group" } else { "its removal" }, source, fix))
        }
    }
}

/// Writes a line and reads it back: the kernel rounds.
pub(crate) fn set_line(calls: &dyn GroupCalls, line: &Line, value: &str) -> Result<Written, LinuxError> {
    let text = format!("{}:{}={value}", line.resource, line.domain);
    match calls.set_line(&line.group, &text) {
        Ok(()) => {}
        Err(error) if is_gone(&error) && !line.group.exists() => return Ok(Written::Vanished),
        Err(source) => {
            let fix = "choose a value within the ranges in info";
            return Err(failed(&line.group.join("schemata"), &text, source, fix));
        }
    }
    match read_line(line)? {
        Some(now) if now == plain(&line.resource, value) => Ok(Written::Done),
        Some(now) => {
            let source = io::Error::other(format!("the kernel made it {now}"));
            Err(failed(&line.group.join("schemata"), &text, source, "choose a multiple of the step in info"))
        }
        None => Ok(Written::Vanished),
    }
}

/// Moves a thread into its group, or back to the root's.
pub(crate) fn set_member(calls: &dyn GroupCalls, of: &Membership, inside: bool) -> Result<Written, LinuxError> {
    let group = if inside { &of.group } else { root_of(&of.group) };
    match calls.join(group, of.thread.tid) {
        Ok(()) => Ok(Written::Done),
        Err(error) if is_gone(&error) => Ok(Written::Vanished),
        Err(source) => Err(failed(
            &group.join("tasks"),
            &of.thread.tid.to_string(),
            source,
            "run as root, or as the thread's owner",
        )),
    }
}

fn failed(path: &Path, value: &str, source: io::Error, fix: &'static str) -> LinuxError {
    let status = file::read(&root_of(path).join("info/last_cmd_status")).ok().flatten();
    let status = status.filter(|status| status != "ok").map_or(String::new(), |status| format!(" ({status})"));
    LinuxError::Resctrl { path: path.to_owned(), value: value.to_owned(), source, status, fix }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_found_in_every_form_of_the_file() {
        let text = "    MB:0=100;1= 50\n    L3:0=fffff;1=00ff\nL3CODE:4=7";
        let of = |resource, domain| value_of(text, resource, domain);
        assert_eq!(of("MB", 1).as_deref(), Some("50"));
        assert_eq!(of("L3", 1).as_deref(), Some("ff"));
        assert_eq!(of("L3CODE", 4).as_deref(), Some("7"));
        assert_eq!((of("L3", 2), of("L3DATA", 0)), (None, None));
    }
}
