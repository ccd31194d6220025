//! Processes and threads that have ended, without a look at their directories.

use std::path::Path;

use rustix::io::Errno;
use rustix::process::Pid;

/// Has the process or thread of this number ended, as far as can be known without a look at its directory? A look at one that has
/// ended may take seconds: the kernel takes the directory apart, and spins until a process that is at the same is ready.
#[must_use]
pub fn has_ended(proc: &Path, number: i32) -> bool {
    proc == Path::new("/proc") && is_none(number)
}

/// Has no process or thread that this process's calls could name this number?
pub(super) fn is_none(number: i32) -> bool {
    let pid = Some(number).filter(|number| *number > 0).and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
}

/// Is this the status of the process of this number in a procfs of the process's own pid namespace? One of another namespace has a
/// number for each down to it.
pub(super) fn has_own_numbers(status: &str, pid: u32) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| numbers.split_whitespace().eq([pid.to_string().as_str()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ones_own_where_no_other_namespace_gives_one() {
        assert!(has_own_numbers("Pid:\t7\nNSpid:\t7\n", 7));
        assert!(!has_own_numbers("Pid:\t7\nNSpid:\t7\t7\n", 7), "the same number in two namespaces");
        assert!(!has_own_numbers("Pid:\t7\nNSpid:\t9\t7\n", 7));
        assert!(!has_own_numbers("", 7));
    }
}
