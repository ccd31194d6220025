//! Requests that wait for the plug-in: few, and not too long together.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::ended::Ended;
use crate::error::Error;
use crate::message::service::{Request, Status};

/// Most requests that wait.
const MOST_REQUESTS: usize = 32;
/// Most bytes that wait, in all.
const MOST_BYTES: usize = 16 << 20;

/// A request that arrived, or why it is none.
#[derive(Debug)]
pub struct Arrived {
    pub stream: u32,
    pub at: Instant,
    pub request: Result<Request, Status>,
}

impl Arrived {
    fn bytes(&self) -> usize {
        self.request.as_ref().map_or(0, |request| request.payload.len())
    }
}

/// Between the thread that reads and the thread that handles.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Arrived>,
    bytes: usize,
    ended: Option<Result<Ended, Error>>,
}

impl Queue {
    /// Enqueues a request. Fails when too much waits.
    pub fn put(&self, arrived: Arrived) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (requests, bytes) = (state.waiting.len() + 1, state.bytes + arrived.bytes());
        if requests > MOST_REQUESTS || bytes > MOST_BYTES {
            return Err(Error::Overflow { requests, bytes });
        }
        state.bytes = bytes;
        state.waiting.push_back(arrived);
        self.changed.notify_one();
        Ok(())
    }

    /// No more requests come, for this reason. The first one counts. What waits is dropped: nothing waits for the answers.
    pub fn end(&self, why: Result<Ended, Error>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.ended.is_none() {
            state.ended = Some(why);
        }
        state.waiting.clear();
        state.bytes = 0;
        self.changed.notify_one();
    }

    /// The next request, or why none will come: said once.
    pub fn take(&self) -> Result<Arrived, Result<Ended, Error>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(why) = state.ended.take() {
                return Err(why);
            }
            if let Some(arrived) = state.waiting.pop_front() {
                state.bytes -= arrived.bytes();
                return Ok(arrived);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(stream: u32, bytes: usize) -> Arrived {
        let request = Request { payload: vec![0; bytes], ..Request::default() };
        Arrived { stream, at: Instant::now(), request: Ok(request) }
    }

    #[test]
    fn what_waits_is_bounded_in_number_and_length_and_taken_in_order() {
        let queue = Queue::default();
        (0..32).for_each(|stream| queue.put(arrived(stream, 1)).unwrap());
        assert!(matches!(queue.put(arrived(32, 1)), Err(Error::Overflow { requests: 33, .. })));
        assert_eq!(queue.take().unwrap().stream, 0);
        assert!(matches!(queue.put(arrived(33, MOST_BYTES - 30)), Err(Error::Overflow { requests: 32, .. })));
        queue.put(arrived(34, MOST_BYTES - 31)).unwrap();
        assert_eq!(queue.take().unwrap().stream, 1);
    }

    #[test]
    fn the_first_reason_counts_and_what_waits_is_dropped() {
        let queue = Queue::default();
        queue.put(arrived(1, 1)).unwrap();
        queue.end(Ok(Ended::Closed));
        queue.end(Ok(Ended::Runtime));
        assert!(matches!(queue.take(), Err(Ok(Ended::Closed))));
    }
}
