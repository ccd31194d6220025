//! `/proc/PID/autogroup` (sched(7), "The autogroup feature"): the kernel lets sessions compete as groups, so that nice values and
//! SCHED_IDLE count within a session alone.

use super::name::Name;
use super::reader::{PROCESS_FILE, ProcFs};
use super::stat::number;
use crate::LinuxError;

/// A session's autogroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autogroup {
    /// Its number; never another one's while the machine runs.
    pub id: i64,
    /// Its nice value.
    pub nice: i8,
}

impl Autogroup {
    /// Reads `/autogroup-12 nice 0`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Autogroup> {
        let text = text.trim_ascii().strip_prefix(b"/autogroup-")?;
        let mut words = text.split(|byte| *byte == b' ');
        let id = number(words.next()?)?;
        let nice = words.next().filter(|word| *word == b"nice").and_then(|_| number(words.next()?))?;
        Some(Autogroup { id, nice: i8::try_from(nice).ok()? })
    }
}

impl ProcFs {
    /// Do autogroups compete here?
    #[must_use]
    pub fn has_autogroups(&mut self) -> bool {
        let text = self.read(&Name::new(format_args!("sys/kernel/sched_autogroup_enabled")), PROCESS_FILE);
        text.ok().flatten().is_some_and(|text| text.trim_ascii() == b"1")
    }

    /// The autogroup of a process's session; None if it vanished, or has none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn autogroup(&mut self, pid: i32) -> Result<Option<Autogroup>, LinuxError> {
        Ok(self.read(&Name::new(format_args!("{pid}/autogroup")), PROCESS_FILE)?.and_then(Autogroup::parse))
    }

    /// A process of this session and autogroup; None: there is none any more. The leader is looked at first, then the one that was
    /// found before.
    ///
    /// # Errors
    /// If the processes cannot be listed.
    pub fn in_session(&mut self, session: i32, id: i64) -> Result<Option<(i32, Autogroup)>, LinuxError> {
        for pid in [Some(session), self.last_in_session.get(&id).copied()].into_iter().flatten() {
            if let Some(found) = self.autogroup(pid)?.filter(|found| found.id == id) {
                return Ok(Some((pid, found)));
            }
        }
        let mut pids = Vec::new();
        self.pids(&mut pids)?;
        for pid in pids {
            if self.stat(pid, pid)?.is_none_or(|stat| stat.session != session) {
                continue;
            }
            if let Some(found) = self.autogroup(pid)?.filter(|found| found.id == id) {
                self.last_in_session.insert(id, pid);
                return Ok(Some((pid, found)));
            }
        }
        self.last_in_session.remove(&id);
        Ok(None)
    }

    /// Is the process in a cgroup with a cpu controller of its own, so that its autogroup does not count? False if it vanished.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn has_own_shares(&mut self, pid: i32, cgroup: &std::path::Path) -> Result<bool, LinuxError> {
        let Some(text) = self.read(&Name::new(format_args!("{pid}/cgroup")), PROCESS_FILE)? else { return Ok(false) };
        let text = String::from_utf8_lossy(text);
        let of_line = |line: &str| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let is_root = path.trim_end_matches('/').is_empty();
            if number != "0" {
                return Some(!is_root && controllers.split(',').any(|name| name == "cpu"));
            }
            let here = cgroup.join(path.trim_start_matches('/'));
            let given = crate::cgroup::controllers_here(&here).ok().flatten().unwrap_or_default();
            Some(!is_root && given.split(' ').any(|name| name == "cpu"))
        };
        Ok(text.lines().filter_map(of_line).any(|own| own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_number_and_a_nice_value() {
        assert_eq!(Autogroup::parse(b"/autogroup-12 nice 0\n"), Some(Autogroup { id: 12, nice: 0 }));
        assert_eq!(Autogroup::parse(b"/autogroup-7 nice -5\n"), Some(Autogroup { id: 7, nice: -5 }));
        for broken in [&b""[..], b"/autogroup-x nice 1", b"/autogroup-1", b"/autogroup-1 nice 999"] {
            assert_eq!(Autogroup::parse(broken), None);
        }
    }
}
