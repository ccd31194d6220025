//! procfs at an instant, as plain data.

use std::path::Path;

use quell_model::{CpuId, CpuSet, Nanos};

use crate::GapError;

/// One look at procfs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time on the monotonic clock.
    pub at: Nanos,
    /// Time at which all was read: on a crowded machine the reader may lose its CPU meanwhile.
    pub read: Nanos,
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

/// Times of some CPUs together, each in steps of 10 ms (`/proc/stat`, lines `cpu0`, `cpu1`, …).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTimes {
    /// Idle, waiting for I/O included.
    pub idle: Nanos,
    /// Not idle.
    pub busy: Nanos,
    /// Of the busy time: stolen by the hypervisor.
    pub steal: Nanos,
    /// Of the busy time: interrupts, hard and soft, where the kernel counts them.
    pub interrupts: Nanos,
}

impl MachineTimes {
    /// Reads those of these CPUs from a procfs.
    ///
    /// # Errors
    /// If the file cannot be read, or has none of these lines.
    pub fn read(proc: &Path, cpus: &CpuSet) -> Result<MachineTimes, GapError> {
        let path = proc.join("stat");
        let text = std::fs::read_to_string(&path).map_err(|source| GapError::Read { path: path.clone(), source })?;
        MachineTimes::parse(&text, cpus)
            .ok_or(GapError::Form { path, expected: "lines `cpu0`, `cpu1`, … with eight numbers" })
    }

    fn parse(text: &str, cpus: &CpuSet) -> Option<MachineTimes> {
        let lines = text.lines().filter_map(|line| {
            let (cpu, ticks) = line.strip_prefix("cpu")?.split_once(' ')?;
            let is_wanted = cpu.parse().is_ok_and(|cpu| cpus.contains(CpuId(cpu)));
            is_wanted.then_some(ticks)
        });
        let mut sum = None::<MachineTimes>;
        for ticks in lines {
            let ticks =
                ticks.split_whitespace().map(|number| number.parse::<u64>().ok()).collect::<Option<Vec<u64>>>()?;
            let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks.as_slice() else { return None };
            let time = |ticks: u64| Nanos::from_millis(10 * ticks);
            let so_far = sum.get_or_insert_default();
            so_far.idle += time(idle + iowait);
            so_far.busy += time(user + nice + system + irq + softirq + steal);
            so_far.steal += time(steal);
            so_far.interrupts += time(irq + softirq);
        }
        // A CPU that went offline has no line.
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_cpus_are_added_up_and_others_left_out() {
        let text = "cpu  90 9 9 900 9 9 9 9 0 0\ncpu0 10 1 2 100 5 3 4 6 0 0\ncpu1 1 0 0 50 0 0 0 1 0 0\n\
                    cpu2 7 7 7 700 7 7 7 7 0 0\nintr 1 2 3\n";
        let times = MachineTimes::parse(text, &CpuSet::first(2)).unwrap();
        assert_eq!(times.idle, Nanos::from_millis(1550));
        assert_eq!(times.busy, Nanos::from_millis(280));
        assert_eq!(times.steal, Nanos::from_millis(70));
        assert_eq!(times.interrupts, Nanos::from_millis(70));
        for broken in ["", "cpu0 1 2 3\n", "cpu0 a b c d e f g h\n", "cpu 1 1 1 1 1 1 1 1\n", "cpu2 1 1 1 1 1 1 1 1\n"]
        {
            assert_eq!(MachineTimes::parse(broken, &CpuSet::first(2)), None, "{broken}");
        }
    }
}
