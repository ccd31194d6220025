//! The wait before the next try.

use std::time::Duration;

/// Waits that double from try to try, up to a longest one, and begin anew after a connection that lasted longer than that.
///
/// ```
/// use std::time::Duration;
/// let mut backoff = nri::Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
/// let waits: Vec<u128> = (0..6).map(|_| backoff.after(Duration::ZERO).as_millis()).collect();
/// assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
/// assert_eq!(backoff.after(Duration::from_secs(5)).as_millis(), 100);
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits from `first` to `most`.
    pub fn new(first: Duration, most: Duration) -> Backoff {
        let first = first.min(most);
        Backoff { first, most, next: first }
    }

    /// How long to wait after a connection that lasted for this time; zero if there was none.
    pub fn after(&mut self, lasted: Duration) -> Duration {
        if lasted > self.most {
            self.next = self.first;
        }
        let wait = self.next;
        self.next = self.next.saturating_mul(2).min(self.most);
        wait
    }
}

impl Default for Backoff {
    /// From 100 ms to 5 s: a runtime that restarts is back within that.
    fn default() -> Backoff {
        Backoff::new(Duration::from_millis(100), Duration::from_secs(5))
    }
}
