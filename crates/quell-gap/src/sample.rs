//! What procfs says at an instant, as plain data.

use std::path::Path;

use quell_model::Nanos;

use crate::GapError;

/// One look at procfs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When, on the monotonic clock.
    pub at: Nanos,
    /// The machine's times since boot.
    pub machine: MachineTimes,
    /// The watched threads that were there.
    pub threads: Vec<ThreadTimes>,
}

/// A thread's times since its birth (`/proc/PID/task/TID/schedstat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Its number.
    pub tid: i32,
    /// Its workload.
    pub slot: u16,
    /// Time on a CPU.
    pub run: Nanos,
    /// Time runnable and not on a CPU, counted when a wait ends.
    pub delay: Nanos,
    /// Was it runnable or running then? Needed of the first and the last sample only.
    pub runnable: bool,
}

/// Times of all CPUs together, in steps of 10 ms (`/proc/stat`, line `cpu`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTimes {
    /// Idle, waiting for I/O included.
    pub idle: Nanos,
    /// Not idle.
    pub busy: Nanos,
    /// Of the busy time: stolen by the hypervisor.
    pub steal: Nanos,
}

impl MachineTimes {
    /// Reads them from a procfs.
    ///
    /// # Errors
    /// If the file cannot be read, or has no line `cpu`.
    pub fn read(proc: &Path) -> Result<MachineTimes, GapError> {
        let path = proc.join("stat");
        let text = std::fs::read_to_string(&path).map_err(|source| GapError::Read { path: path.clone(), source })?;
        MachineTimes::parse(&text).ok_or(GapError::Form { path, expected: "a line `cpu` with eight numbers" })
    }

    fn parse(text: &str) -> Option<MachineTimes> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks = line.split_whitespace().map(|number| number.parse::<u64>().ok()).collect::<Option<Vec<u64>>>()?;
        let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks.as_slice() else { return None };
        let time = |ticks: u64| Nanos::from_millis(10 * ticks);
        let busy = user + nice + system + irq + softirq + steal;
        Some(MachineTimes { idle: time(idle + iowait), busy: time(busy), steal: time(steal) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_stat_is_read() {
        let times = MachineTimes::parse("cpu  10 1 2 100 5 3 4 6 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n").unwrap();
        assert_eq!(times.idle, Nanos::from_millis(1050));
        assert_eq!(times.busy, Nanos::from_millis(260));
        assert_eq!(times.steal, Nanos::from_millis(60));
        for broken in ["", "cpu 1 2 3\n", "cpu a b c d e f g h\n", "cpu0 1 1 1 1 1 1 1 1\n"] {
            assert_eq!(MachineTimes::parse(broken), None, "{broken}");
        }
    }
}
