//! Places for connections: a new one takes that of the oldest which is still silent, so that silent ones keep no reader out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::AbortHandle;

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
    connection: AbortHandle,
}

impl Taken {
    /// Ends the oldest connection that is silent; if none is, the oldest.
    fn make_room(&mut self) {
        let silent = self.seats.iter().position(|seat| !seat.spoke.load(Ordering::Relaxed));
        if let Some(seat) = self.seats.remove(silent.unwrap_or(0)) {
            seat.connection.abort();
        }
    }
}

impl Seats {
    /// This number of places, all free.
    pub fn of(most: usize) -> Seats {
        Seats { most, taken: Arc::default() }
    }

    /// Runs a connection; `connect` gets the sign to be set once its request has arrived.
    pub fn give<C>(&self, connect: impl FnOnce(Arc<AtomicBool>) -> C)
    where
        C: Future<Output = ()> + Send + 'static,
    {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.seats.len() >= self.most {
            taken.make_room();
        }
        let (number, spoke) = (taken.next, Arc::new(AtomicBool::new(false)));
        taken.next += 1;
        let (work, all) = (connect(Arc::clone(&spoke)), Arc::clone(&self.taken));
        let task = tokio::spawn(async move {
            work.await;
            all.lock().unwrap_or_else(PoisonError::into_inner).seats.retain(|seat| seat.number != number);
        });
        taken.seats.push_back(Seat { number, spoke, connection: task.abort_handle() });
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
            seats.give(|spoke| {
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
        seats.give(|_| async {});
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert_eq!(gone(), [6]);
        sit(7, false);
        tokio::task::yield_now().await;
        assert_eq!(gone(), [0; 0], "one has ended by itself");
    }
}
