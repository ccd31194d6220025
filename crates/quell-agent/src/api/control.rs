//! Requests to the loop: the API's thread asks, the loop answers in its next turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::oneshot;

use crate::wire::{Controlled, Problem, Protect, Protected, Prove, Resize, Turn, Verified};

/// Requests that wait for the loop at most.
const QUEUE: usize = 64;

/// The answer to a caller that asks for a leased workload, or for another size of one.
pub type Answer = oneshot::Sender<Result<Protected, Problem>>;

/// The answer to a caller that switches.
pub type Switching = oneshot::Sender<Result<Controlled, Problem>>;

/// One request, with the place for its answer.
#[derive(Debug)]
pub enum Call {
    /// To be switched off or on.
    Switch {
        /// What is asked.
        switched: Switched,
        /// The caller, in words.
        by: String,
        /// The number of the lease, if it is one.
        lease: u64,
        /// For the answer; the caller may have gone.
        answer: Switching,
    },
    /// A leased workload is asked for.
    Lease {
        /// The workload.
        protect: Box<Protect>,
        /// The caller, in words.
        by: String,
        /// The number of the lease.
        lease: u64,
        /// For the answer; the caller may have gone.
        answer: Answer,
    },
    /// Another size of a leased workload is asked for.
    Resize(Resize, Answer),
    /// An experiment is to begin.
    Prove {
        /// What is compared.
        prove: Box<Prove>,
        /// The caller, in words.
        by: String,
        /// The number of the lease.
        lease: u64,
        /// To be set when the agent ends it before the caller does.
        ended: Arc<AtomicBool>,
        /// For the answer; the caller may have gone.
        answer: Switching,
    },
    /// The next turn of the experiment of this caller.
    Turn(Turn, String, Switching),
    /// The caller that held this lease is gone.
    LeaseEnded(u64),
    /// Do all settings stand?
    Verify(oneshot::Sender<Verified>),
}

/// Off or on, see [`Command`](crate::wire::Command).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switched {
    /// Off until it is switched on.
    Off,
    /// On.
    On,
    /// Off as long as the caller is connected.
    OffWhileConnected,
}

/// The loop's end.
#[derive(Debug)]
pub struct Calls {
    queue: Receiver<Call>,
    is_over: Arc<AtomicBool>,
}

/// The API's end.
#[derive(Clone, Debug)]
pub struct Caller {
    queue: SyncSender<Call>,
    is_over: Arc<AtomicBool>,
}

/// Both ends.
#[must_use]
pub fn calls() -> (Caller, Calls) {
    let (sender, receiver) = sync_channel(QUEUE);
    let is_over = Arc::new(AtomicBool::new(false));
    (Caller { queue: sender, is_over: Arc::clone(&is_over) }, Calls { queue: receiver, is_over })
}

impl Calls {
    /// The requests since the last call; never waits.
    pub fn drain(&self) -> impl Iterator<Item = Call> + '_ {
        self.queue.try_iter().take(QUEUE)
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}

impl Caller {
    /// Has the loop ended? A lease that it gave is over.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Hands a request over; false: the loop has not taken those before, or has ended.
    pub(super) fn ask(&self, call: Call) -> bool {
        self.queue.try_send(call).is_ok()
    }
}

/// A lease; dropped with its connection.
#[derive(Debug)]
pub(super) struct Lease {
    pub caller: Caller,
    pub number: u64,
    /// Has the loop ended it?
    pub ended: Arc<AtomicBool>,
}

impl Lease {
    /// Does the caller no longer have it, although it is there?
    pub fn is_over(&self) -> bool {
        self.caller.is_over() || self.ended.load(Ordering::Acquire)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (caller, number) = (self.caller.clone(), self.number);
        if !caller.ask(Call::LeaseEnded(number)) {
            // The queue is full: it is emptied within a turn.
            std::thread::spawn(move || caller.queue.send(Call::LeaseEnded(number)));
        }
    }
}
