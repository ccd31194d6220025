//! A thread's owner: its process, process group and session, so that children that inherited a value can be found.

use std::fs;
use std::path::Path;

use quell_linux::procfs::has_ended;
use serde::{Deserialize, Serialize};

/// A thread's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owner {
    /// Its number.
    pub pid: i32,
    /// Its process group: a job of a shell. Its children keep it even when their parent dies.
    #[serde(default)]
    pub group: i32,
    /// Its session, which its children keep likewise.
    pub session: i32,
}

/// The thread's owner; None if it vanished (or the tree does not say).
#[must_use]
pub fn of_thread(proc: &Path, tid: i32) -> Option<Owner> {
    if has_ended(proc, tid) {
        return None;
    }
    parse(&fs::read_to_string(proc.join(format!("{tid}/status"))).ok()?)
}

/// Now, in clock ticks since boot, as threads' start times are counted.
#[must_use]
pub fn ticks_since_boot() -> u64 {
    quell_thread::clock::since_boot().0 / 10_000_000
}

/// The number of this boot; empty where the system does not report it.
#[must_use]
pub fn boot_id(proc: &Path) -> String {
    fs::read_to_string(proc.join("sys/kernel/random/boot_id")).map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// `/proc/TID/status`: the lines Tgid, NSpgid and NSsid (the number of this pid namespace is first).
fn parse(status: &str) -> Option<Owner> {
    let value = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<i32>().ok()
    };
    let group = value("NSpgid").unwrap_or(0);
    Some(Owner { pid: value("Tgid")?, group, session: value("NSsid").unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_process_group_and_session_stand_in_its_status() {
        let status = "Name:\tx\nTgid:\t7\nNgid:\t0\nPid:\t9\nNStgid:\t7\nNSpgid:\t6\nNSsid:\t5\n";
        assert_eq!(parse(status), Some(Owner { pid: 7, group: 6, session: 5 }));
        assert_eq!(parse("Name:\tx\n"), None);
    }

    #[test]
    fn this_thread_has_an_owner() {
        let own = of_thread(Path::new("/proc"), std::process::id() as i32).unwrap();
        assert_eq!(own.pid, std::process::id() as i32);
        assert!(ticks_since_boot() > 0 && !boot_id(Path::new("/proc")).is_empty());
    }
}
