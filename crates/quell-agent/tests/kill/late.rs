//! How late the machine lets a thread run that does nothing but sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(2);

/// A bare thread, until it is asked. An ordinary one: a killed worker dies so, `quell restore` is one, and the guardian is
/// one by turns when putting back takes long (see `realtime::Sentry`).
pub struct Sleeper {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Sleeper {
    pub fn begin() -> Sleeper {
        let end: Arc<AtomicBool> = Arc::default();
        let seen = Arc::clone(&end);
        let thread = thread::spawn(move || {
            let mut late = Duration::ZERO;
            while !seen.load(Ordering::Relaxed) {
                let begun = Instant::now();
                thread::sleep(NAP);
                late += begun.elapsed().saturating_sub(NAP);
            }
            late
        });
        Sleeper { end, thread }
    }

    /// How late it woke, all in all.
    pub fn late(self) -> Duration {
        self.end.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only sleeps")
    }
}
