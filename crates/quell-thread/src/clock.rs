//! The system's clocks. Instants of one clock can be compared between all processes of one boot.

use quell_model::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC: the hosts' clock, and that of BPF programs.
#[must_use]
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// CLOCK_BOOTTIME: the clock of threads' start times; it goes on while the machine sleeps.
#[must_use]
pub fn since_boot() -> Nanos {
    read(ClockId::Boottime)
}

/// CPU time of the calling thread: what something cost, whatever else ran meanwhile.
#[must_use]
pub fn cpu_time() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process.
#[must_use]
pub fn process_cpu_time() -> Nanos {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_runs_uses_cpu_time_while_time_passes() {
        let (begun, used) = (now(), cpu_time());
        while cpu_time() == used {
            std::hint::spin_loop();
        }
        assert!(now() > begun && process_cpu_time() >= cpu_time() && since_boot() >= begun);
    }
}
