//! Real-time throttling, as kernels before 6.12 had it: SCHED_FIFO and SCHED_RR threads have so much of each CPU every
//! period, and wait for the period's end when they have used it, even if the CPU idles meanwhile.
//!
//! As in the kernel the limit is noticed when the running thread is accounted, at the next tick at the latest, and what
//! was used beyond it counts for the next period.

use super::{Kernel, RealTimeLimit};
use crate::timers::TimerId;

/// `sched_rt_runtime_us`, ns.
const RUNTIME: u64 = 950_000_000;
/// `sched_rt_period_us`, ns.
const PERIOD: u64 = 1_000_000_000;

/// The period that is the same on all CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    timer: TimerId,
    is_running: bool,
}

impl Period {
    pub fn new(timer: TimerId) -> Period {
        Period { timer, is_running: false }
    }
}

impl Kernel {
    /// A real-time thread ran for this long.
    pub(crate) fn charge_real_time(&mut self, cpu: usize, span: u64) {
        if self.config.real_time_limit != RealTimeLimit::Throttling {
            return;
        }
        if !std::mem::replace(&mut self.real_time_period.is_running, true) {
            self.timers.set(self.real_time_period.timer, self.now + PERIOD);
        }
        let seen = &mut self.cpus[cpu];
        seen.real_time_used += span;
        if seen.real_time_used > RUNTIME && !std::mem::replace(&mut seen.real_time_throttled, true) {
            self.reschedule(cpu);
        }
    }

    /// A period ends.
    pub(crate) fn end_real_time_period(&mut self) {
        let mut goes_on = false;
        for cpu in 0..self.cpus.len() {
            self.account(cpu);
            let seen = &mut self.cpus[cpu];
            seen.real_time_used = seen.real_time_used.saturating_sub(RUNTIME);
            goes_on |= seen.real_time_used > 0 || !seen.real_time.is_empty();
            if seen.real_time_throttled && seen.real_time_used < RUNTIME {
                seen.real_time_throttled = false;
                self.reschedule(cpu);
            }
        }
        self.real_time_period.is_running = goes_on;
        if goes_on {
            self.timers.set(self.real_time_period.timer, self.now + PERIOD);
        }
    }
}
