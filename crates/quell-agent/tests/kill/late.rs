//! How late the machine lets a thread run that does nothing but sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quell_agent::realtime::run_before_others;

/// The guardian's and the watching thread's priority, the lower of both.
const PRIORITY: u8 = 97;
const NAP: Duration = Duration::from_millis(2);

/// A bare thread of one class, until it is asked.
pub struct Sleeper {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Sleeper {
    /// Real-time, or ordinary.
    pub fn begin(real_time: bool) -> Sleeper {
        let end: Arc<AtomicBool> = Arc::default();
        let seen = Arc::clone(&end);
        let thread = thread::spawn(move || {
            if real_time {
                run_before_others(PRIORITY).expect("the system allows it or does not");
            }
            let mut latest = Duration::ZERO;
            while !seen.load(Ordering::Relaxed) {
                let begun = Instant::now();
                thread::sleep(NAP);
                latest = latest.max(begun.elapsed().saturating_sub(NAP));
            }
            latest
        });
        Sleeper { end, thread }
    }

    /// The latest that it woke.
    pub fn latest(self) -> Duration {
        self.end.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only sleeps")
    }
}
