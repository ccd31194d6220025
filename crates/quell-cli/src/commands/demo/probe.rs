//! Is the machine usable? A thread of ordinary priority that sleeps a millisecond at a time and notes how late it wakes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quell_report::stats::Histogram;

const NAP: Duration = Duration::from_millis(1);

/// Probes until `stop` is set; the histogram holds the lateness of every wake-up, ns.
pub fn probe(stop: &AtomicBool) -> Histogram {
    let mut lateness = Histogram::default();
    while !stop.load(Ordering::Acquire) {
        let due = Instant::now() + NAP;
        thread::sleep(NAP);
        let late = Instant::now().saturating_duration_since(due);
        lateness.record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
    }
    lateness
}
