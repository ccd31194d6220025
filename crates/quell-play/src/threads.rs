//! What a playing thread sets about itself, and what the kernel says of it.

use std::io;

use quell_linux::sched::{Kernel, ThreadCalls, ThreadClass};
use quell_model::{Nanos, SchedClass};
use quell_sim::WorkloadSpec;
use quell_thread::clock;
use rustix::thread::{ClockId as SleepClock, clock_nanosleep_absolute};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::Timespec;

use crate::error::{Error, Result};

/// Makes the calling thread thread number `thread` of a workload: class, nice value, affinity, and timers that are exact.
pub fn become_thread(spec: &WorkloadSpec, thread: u32) -> Result<()> {
    let failed = |what| move |why: io::Error| Error::System { workload: spec.name.clone(), what, why };
    // Ordinary threads' timers may be 50 µs late otherwise, to save power.
    // SAFETY: a number, no pointer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    if let Some(cpus) = spec.affinity.get(thread as usize % spec.affinity.len().max(1)) {
        let mut set = CpuSet::new();
        cpus.0.iter().for_each(|cpu| set.set(cpu.index()));
        sched_setaffinity(None, &set).map_err(|why| failed("bind a thread")(why.into()))?;
    }
    match spec.class_of(thread) {
        SchedClass::NORMAL => Ok(()),
        class => {
            let mut kernel =
                Kernel::new().map_err(|why| failed("ask for its scheduling class")(io::Error::other(why)))?;
            can_have(class, kernel.has_slices()).map_err(failed("set its scheduling class"))?;
            kernel.set_class(0, &ThreadClass::of(class)).map_err(failed("set its scheduling class"))
        }
    }
}

/// Older kernels ignore a slice without a word.
fn can_have(class: SchedClass, has_slices: bool) -> io::Result<()> {
    match class {
        SchedClass::Fair { slice: Some(_), .. } if !has_slices => {
            Err(io::Error::other("this kernel knows no slice of a thread's own; Linux 6.12 is the first that does"))
        }
        _ => Ok(()),
    }
}

/// Sleeps until CLOCK_MONOTONIC shows `at`.
pub fn sleep_until(at: Nanos) {
    let time = Timespec { tv_sec: (at.0 / 1_000_000_000) as i64, tv_nsec: (at.0 % 1_000_000_000) as i64 };
    while clock::now() < at {
        let _ = clock_nanosleep_absolute(SleepClock::Monotonic, &time);
    }
}

/// What the threads of a process had of the CPUs so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Had {
    /// When this was read.
    pub at: Nanos,
    /// CPU time.
    pub ran: Nanos,
    /// Time in runqueues.
    pub waited: Nanos,
}

/// Sums `/proc/PID/task/*/schedstat`. A thread that ends meanwhile is left out.
///
/// # Errors
/// The system's, if there is no such process.
pub fn had(pid: i32) -> io::Result<Had> {
    let mut had = Had { at: clock::now(), ..Had::default() };
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let Ok(text) = std::fs::read_to_string(entry?.path().join("schedstat")) else { continue };
        let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap_or(0));
        had.ran += Nanos(numbers.next().unwrap_or(0));
        had.waited += Nanos(numbers.next().unwrap_or(0));
    }
    Ok(had)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_that_the_kernel_would_ignore_is_refused() {
        let sliced = SchedClass::Fair { nice: 0, slice: Some(Nanos::from_millis(1)) };
        assert!(can_have(sliced, true).is_ok());
        assert!(can_have(sliced, false).unwrap_err().to_string().contains("6.12"));
        assert!(can_have(SchedClass::Fair { nice: 5, slice: None }, false).is_ok());
    }
}
