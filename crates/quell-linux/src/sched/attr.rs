//! `struct sched_attr` and the model's scheduling classes (sched_setattr(2)).

use std::io;

use libc::sched_attr;
use quell_model::{Nanos, SchedClass};

use super::ThreadClass;

const RESET_ON_FORK: u64 = libc::SCHED_FLAG_RESET_ON_FORK as u64;
/// SCHED_EXT: threads that a sched_ext scheduler took over by their own wish. They have nice values.
const SCHED_EXT: u32 = 7;

/// A class as the system call wants it.
pub(super) fn encode(wanted: &ThreadClass) -> sched_attr {
    let mut attr = empty();
    attr.sched_flags = if wanted.reset_on_fork { RESET_ON_FORK } else { 0 };
    match wanted.class {
        SchedClass::Fair { nice, slice } => {
            attr.sched_policy = libc::SCHED_OTHER as u32;
            attr.sched_nice = i32::from(nice);
            // From kernel 6.12 on this is the thread's own slice; zero asks for the kernel's.
            attr.sched_runtime = slice.map_or(0, |slice| slice.0);
        }
        SchedClass::Batch { nice } => {
            attr.sched_policy = libc::SCHED_BATCH as u32;
            attr.sched_nice = i32::from(nice);
        }
        SchedClass::Idle => attr.sched_policy = libc::SCHED_IDLE as u32,
        SchedClass::Fifo { priority } => {
            attr.sched_policy = libc::SCHED_FIFO as u32;
            attr.sched_priority = u32::from(priority);
        }
        SchedClass::RoundRobin { priority } => {
            attr.sched_policy = libc::SCHED_RR as u32;
            attr.sched_priority = u32::from(priority);
        }
        SchedClass::Deadline { runtime, deadline, period } => {
            attr.sched_policy = libc::SCHED_DEADLINE as u32;
            attr.sched_runtime = runtime.0;
            attr.sched_deadline = deadline.0;
            attr.sched_period = period.0;
        }
    }
    attr
}

/// A class as the system call returns it. A slice like `kernel_slice` is the kernel's choice, not the thread's own.
pub(super) fn decode(attr: &sched_attr, kernel_slice: u64) -> io::Result<ThreadClass> {
    let nice = attr.sched_nice as i8;
    let class = match attr.sched_policy as i32 {
        libc::SCHED_BATCH => SchedClass::Batch { nice },
        libc::SCHED_IDLE => SchedClass::Idle,
        libc::SCHED_FIFO => SchedClass::Fifo { priority: attr.sched_priority as u8 },
        libc::SCHED_RR => SchedClass::RoundRobin { priority: attr.sched_priority as u8 },
        libc::SCHED_DEADLINE => SchedClass::Deadline {
            runtime: Nanos(attr.sched_runtime),
            deadline: Nanos(attr.sched_deadline),
            period: Nanos(attr.sched_period),
        },
        other if other == libc::SCHED_OTHER || other as u32 == SCHED_EXT => {
            let own = attr.sched_runtime != 0 && attr.sched_runtime != kernel_slice;
            SchedClass::Fair { nice, slice: own.then_some(Nanos(attr.sched_runtime)) }
        }
        other => return Err(io::Error::other(format!("the kernel reports an unknown scheduling policy, {other}"))),
    };
    Ok(ThreadClass { class, reset_on_fork: attr.sched_flags & RESET_ON_FORK != 0 })
}

/// All zero: SCHED_OTHER, nice 0.
pub(super) fn empty() -> sched_attr {
    sched_attr {
        size: size_of::<sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_survive_the_system_calls_form() {
        let classes = [
            SchedClass::NORMAL,
            SchedClass::Fair { nice: -7, slice: Some(Nanos::from_micros(100)) },
            SchedClass::Batch { nice: 19 },
            SchedClass::Idle,
            SchedClass::Fifo { priority: 99 },
            SchedClass::RoundRobin { priority: 1 },
            SchedClass::Deadline { runtime: Nanos(1), deadline: Nanos(2), period: Nanos(3) },
        ];
        for class in classes {
            let class = ThreadClass::of(class);
            assert_eq!(decode(&encode(&class), 2_800_000).unwrap(), class);
        }
    }

    #[test]
    fn the_kernels_slice_is_nobodys_own() {
        let mut attr = empty();
        attr.sched_runtime = 2_800_000;
        assert_eq!(decode(&attr, 2_800_000).unwrap().class, SchedClass::NORMAL);
        attr.sched_policy = 99;
        assert!(decode(&attr, 0).is_err());
    }
}
