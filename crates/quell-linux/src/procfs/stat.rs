//! `/proc/PID/task/TID/stat` and `schedstat` (proc_pid_stat(5), Documentation/scheduler/sched-stats.rst).

use quell_model::{CpuId, Nanos, SchedClass, ThreadState};

/// The flag of kernel threads (`include/linux/sched.h`).
const PF_KTHREAD: i64 = 0x0020_0000;

/// A thread's `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadStat {
    /// Its present state.
    pub state: ThreadState,
    /// Its process's parent.
    pub parent: i32,
    /// Its process's process group.
    pub group: i32,
    /// Its process's session; 0 if that began outside of this pid namespace.
    pub session: i32,
    /// Is it one of the kernel's own (`PF_KTHREAD`)?
    pub is_kernels: bool,
    /// CPU time used, in clock ticks (coarse; `schedstat` is exact).
    pub ticks: u64,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// The CPU that it runs on or ran on last.
    pub cpu: CpuId,
    /// Its scheduling class. Slices and deadline parameters do not stand there and are left at their defaults.
    pub class: SchedClass,
}

/// A thread's `schedstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// CPU time used.
    pub run_time: Nanos,
    /// Time it was runnable without running.
    pub run_delay: Nanos,
    /// Number of times it was put on a CPU.
    pub runs: u64,
}

impl ThreadStat {
    /// Parses a `stat` line. The command name is in parentheses and may itself hold spaces and parentheses.
    pub(crate) fn parse(text: &[u8]) -> Option<ThreadStat> {
        let after_name = text.iter().rposition(|&byte| byte == b')')? + 2;
        let mut fields = text.get(after_name..)?.split(|&byte| byte == b' ');
        // Fields are numbered from 1 in the manual; the state is number 3.
        let state = state(*fields.next()?.first()?);
        let parent = number(fields.next()?)? as i32;
        let group = number(fields.next()?)? as i32;
        let session = number(fields.next()?)? as i32;
        let flags = number(fields.nth(9 - 7)?)?;
        let user = number(fields.nth(14 - 10)?)? as u64;
        let system = number(fields.next()?)? as u64;
        let nice = number(fields.nth(19 - 16)?)? as i8;
        let start = number(fields.nth(22 - 20)?)? as u64;
        let cpu = CpuId(number(fields.nth(39 - 23)?)? as u32);
        let priority = number(fields.next()?)? as u8;
        let policy = number(fields.next()?)? as i32;
        let is_kernels = flags & PF_KTHREAD != 0;
        let class = match policy {
            libc::SCHED_FIFO => SchedClass::Fifo { priority },
            libc::SCHED_RR => SchedClass::RoundRobin { priority },
            libc::SCHED_BATCH => SchedClass::Batch { nice },
            libc::SCHED_IDLE => SchedClass::Idle,
            libc::SCHED_DEADLINE => {
                SchedClass::Deadline { runtime: Nanos::ZERO, deadline: Nanos::ZERO, period: Nanos::ZERO }
            }
            // SCHED_OTHER, and SCHED_EXT, which has a nice value as well.
            _ => SchedClass::Fair { nice, slice: None },
        };
        Some(ThreadStat { state, parent, group, session, is_kernels, ticks: user + system, start, cpu, class })
    }
}

impl SchedStat {
    pub(crate) fn parse(text: &[u8]) -> Option<SchedStat> {
        let mut fields = text.split(|byte| byte.is_ascii_whitespace()).map(number);
        let mut next = || fields.next().flatten().map(|number| number as u64);
        Some(SchedStat { run_time: Nanos(next()?), run_delay: Nanos(next()?), runs: next()? })
    }
}

fn state(letter: u8) -> ThreadState {
    match letter {
        b'R' => ThreadState::Runnable,
        b'T' | b't' => ThreadState::Stopped,
        b'Z' | b'X' | b'x' => ThreadState::Dead,
        _ => ThreadState::Sleeping,
    }
}

/// A decimal number; no allocation, no check of UTF-8.
pub(crate) fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, text),
    };
    let mut value: i64 = 0;
    if digits.is_empty() {
        return None;
    }
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"1234 (a) b (c) R 77 12 13 0 -1 4194304 10 0 0 0 15 27 0 0 39 19 3 0 8812 1000 20 \
        18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 5 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

    #[test]
    fn a_stat_line_is_read_whatever_the_name() {
        let stat = ThreadStat::parse(LINE).unwrap();
        assert_eq!((stat.state, stat.parent, stat.ticks, stat.start), (ThreadState::Runnable, 77, 42, 8812));
        assert_eq!((stat.group, stat.session, stat.is_kernels), (12, 13, false));
        let kernels = String::from_utf8_lossy(LINE).replace(" 4194304 ", " 2129984 ");
        assert!(ThreadStat::parse(kernels.as_bytes()).unwrap().is_kernels);
        assert_eq!((stat.cpu, stat.class), (CpuId(5), SchedClass::Fair { nice: 19, slice: None }));
    }

    #[test]
    fn broken_lines_are_refused() {
        assert_eq!(ThreadStat::parse(b""), None);
        assert_eq!(ThreadStat::parse(b"1 (x) R 2"), None);
        assert_eq!(SchedStat::parse(b"1 2\n"), None);
        assert_eq!(number(b"-"), None);
    }

    #[test]
    fn schedstat_is_nanoseconds() {
        let stat = SchedStat::parse(b"123456 789 10\n").unwrap();
        assert_eq!((stat.run_time, stat.run_delay, stat.runs), (Nanos(123_456), Nanos(789), 10));
    }
}
