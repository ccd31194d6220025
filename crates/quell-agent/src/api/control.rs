//! Requests to the loop: the API's thread asks, the loop answers in its next turn.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::oneshot;

use crate::wire::{Command, Controlled, Verified};

/// Requests that wait for the loop at most.
const QUEUE: usize = 64;

/// One request, with the place for its answer.
#[derive(Debug)]
pub enum Call {
    /// A control call.
    Control {
        /// What is asked.
        command: Command,
        /// The caller, in words.
        by: String,
        /// The number of the lease, if it is one.
        lease: u64,
        /// For the answer; the caller may have gone.
        answer: oneshot::Sender<Controlled>,
    },
    /// The caller that held this lease is gone.
    LeaseEnded(u64),
    /// Do all settings stand?
    Verify(oneshot::Sender<Verified>),
}

/// The loop's end.
#[derive(Debug)]
pub struct Calls(Receiver<Call>);

/// The API's end.
#[derive(Clone, Debug)]
pub struct Caller(SyncSender<Call>);

/// Both ends.
#[must_use]
pub fn calls() -> (Caller, Calls) {
    let (sender, receiver) = sync_channel(QUEUE);
    (Caller(sender), Calls(receiver))
}

impl Calls {
    /// The requests since the last call; never waits.
    pub fn drain(&self) -> impl Iterator<Item = Call> + '_ {
        self.0.try_iter().take(QUEUE)
    }
}

impl Caller {
    /// Hands a request over; false: the loop has not taken those before, or has ended.
    pub(super) fn ask(&self, call: Call) -> bool {
        self.0.try_send(call).is_ok()
    }
}

/// A lease; dropped with its connection.
#[derive(Debug)]
pub(super) struct Lease {
    pub caller: Caller,
    pub number: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (caller, number) = (self.caller.clone(), self.number);
        if !caller.ask(Call::LeaseEnded(number)) {
            // The queue is full: it is emptied within a turn.
            std::thread::spawn(move || caller.0.send(Call::LeaseEnded(number)));
        }
    }
}
