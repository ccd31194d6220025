//! Places for connections: a new one takes that of the oldest which is still silent, so that silent ones keep no reader out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::AbortHandle;

/// Connections that last are counted beside the places, up to this number.
const LASTING: usize = 128;

/// A number of places.
#[derive(Clone)]
pub(super) struct Seats {
    most: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    /// Oldest first.
    seats: VecDeque<Seat>,
    next: u64,
}

struct Seat {
    number: u64,
    /// Has its request arrived?
    spoke: Arc<AtomicBool>,
    /// Is it one that lasts, a lease?
    lasts: Arc<AtomicBool>,
    connection: AbortHandle,
}

impl Taken {
    /// Places that are taken.
    fn count(&self) -> usize {
        let lasting = self.seats.iter().filter(|seat| seat.lasts.load(Ordering::Relaxed)).count();
        self.seats.len() - lasting.min(LASTING)
    }

    /// Ends the oldest connection that is silent; if none is, the oldest that does not last.
    fn make_room(&mut self) {
        let silent = self.seats.iter().position(|seat| !seat.spoke.load(Ordering::Relaxed));
        let oldest = || self.seats.iter().position(|seat| !seat.lasts.load(Ordering::Relaxed));
        if let Some(seat) = self.seats.remove(silent.or_else(oldest).unwrap_or(0)) {
            seat.connection.abort();
        }
    }
}

impl Seats {
    /// This number of places, all free.
    pub fn of(most: usize) -> Seats {
        Seats { most, taken: Arc::default() }
    }

    /// Runs a connection; `connect` gets the sign to be set once its request has arrived, and that to be set if it is to last.
    pub fn give<C>(&self, connect: impl FnOnce(Arc<AtomicBool>, Arc<AtomicBool>) -> C)
    where
        C: Future<Output = ()> + Send + 'static,
    {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.count() >= self.most {
            taken.make_room();
        }
        let (number, spoke, lasts) = (taken.next, Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        taken.next += 1;
        let (work, all) = (connect(Arc::clone(&spoke), Arc::clone(&lasts)), Arc::clone(&self.taken));
        let task = tokio::spawn(async move {
            work.await;
            all.lock().unwrap_or_else(PoisonError::into_inner).seats.retain(|seat| seat.number != number);
        });
        taken.seats.push_back(Seat { number, spoke, lasts, connection: task.abort_handle() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Says its number when it is ended.
    struct Guest(u32, Sender<u32>);

    impl Drop for Guest {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }

    #[test]
    fn the_oldest_silent_connection_makes_room_and_one_that_spoke_stays() {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(guests());
    }

    async fn guests() {
        let (seats, (ended, gone)) = (Seats::of(3), channel());
        let sit = |number: u32, speaks: bool| {
            let guest = Guest(number, ended.clone());
            seats.give(|spoke, _| {
                spoke.store(speaks, Ordering::Relaxed);
                async move {
                    let _guest = guest;
                    std::future::pending::<()>().await;
                }
            });
        };
        let gone = || gone.try_iter().collect::<Vec<_>>();
        for (number, speaks) in [(0, true), (1, false), (2, false), (3, false)] {
            sit(number, speaks);
            tokio::task::yield_now().await;
        }
        assert_eq!(gone(), [1]);
        sit(4, true);
        sit(5, true);
        tokio::task::yield_now().await;
        assert_eq!(gone(), [2, 3]);
        sit(6, false);
        tokio::task::yield_now().await;
        assert_eq!(gone(), [0], "all have spoken: the oldest");
        seats.give(|_, _| async {});
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert_eq!(gone(), [6]);
        sit(7, false);
        tokio::task::yield_now().await;
        assert_eq!(gone(), [0; 0], "one has ended by itself");
    }

    #[test]
    fn a_lease_keeps_its_place_whatever_comes_after_it() {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
            let (seats, (ended, gone)) = (Seats::of(2), channel());
            for number in 0..9 {
                let guest = Guest(number, ended.clone());
                seats.give(|spoke, lasts| {
                    spoke.store(true, Ordering::Relaxed);
                    lasts.store(number < 4, Ordering::Relaxed);
                    async move {
                        let _guest = guest;
                        std::future::pending::<()>().await;
                    }
                });
                tokio::task::yield_now().await;
            }
            assert_eq!(gone.try_iter().collect::<Vec<_>>(), [4, 5, 6]);
        });
    }
}
