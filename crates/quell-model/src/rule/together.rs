//! When a thread that wakes up takes the CPU of one in the same queue (dasec-socc22 §4.2: its *rescheduling latency*; Linux's
//! `wakeup_preempt_entity` before EEVDF).

use crate::Nanos;

/// Is who runs further ahead in virtual time than the wake-up latency of who wakes up? Virtual times go round.
#[must_use]
pub fn overtakes(running: Nanos, woken: Nanos, latency: Nanos) -> bool {
    let ahead = running.0.wrapping_sub(woken.0);
    // What is behind is ahead by more than half of all there is.
    ahead <= i64::MAX as u64 && ahead > latency.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_is_overtaken_when_it_is_further_ahead_than_the_latency() {
        let is = |running, woken, latency| overtakes(Nanos(running), Nanos(woken), Nanos(latency));
        assert!(is(111, 100, 10));
        assert!(!is(110, 100, 10));
        assert!(!is(99, 100, 0), "it is behind");
        assert!(is(5, u64::MAX - 5, 10), "virtual times go round");
        assert!(!is(u64::MAX - 5, 5, 0));
    }
}
