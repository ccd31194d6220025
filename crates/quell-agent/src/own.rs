//! The agent's own cost.

use std::fs;

use quell_thread::clock;

/// Resources used by this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time of all its threads, user and system, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory, in bytes; zero where /proc cannot be read.
    pub resident_bytes: u64,
}

/// Resources used by this process up to now.
#[must_use]
pub fn usage() -> Usage {
    // proc_pid_statm(5): the second number is the resident set, in pages.
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    Usage {
        cpu_seconds: clock::process_cpu_time().as_secs_f64(),
        resident_bytes: pages * rustix::param::page_size() as u64,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_that_runs_has_used_something() {
        let usage = super::usage();
        assert!(usage.cpu_seconds > 0.0 && usage.resident_bytes > 4096, "{usage:?}");
    }
}
