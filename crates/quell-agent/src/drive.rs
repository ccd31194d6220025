//! The loop: turn after turn until told to stop.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use quell_model::{Host, Nanos, Wake};

use crate::AgentError;
use crate::realtime::Sentry;
use crate::stack::{Stack, Witness};

/// Longest interval between the loop's checks for a request to stop, and its scans for new threads.
pub const LONGEST_WAIT: Nanos = Nanos::from_millis(100);

/// Turns until `stop` is set; a sentry hears of each turn.
///
/// # Errors
/// The host's, if it could not observe or obey at all.
pub fn drive<H: Host + ?Sized>(
    stack: &mut Stack,
    host: &mut H,
    witness: &mut dyn Witness,
    stop: &AtomicBool,
    sentry: Option<&Sentry>,
) -> Result<(), H::Error> {
    while !stop.load(Ordering::Acquire) {
        let wake = stack.turn(host)?;
        sentry.map(Sentry::heard);
        witness.turned(stack.view(), stack.layers());
        let latest = stack.view().now + LONGEST_WAIT;
        host.wait(wake.sooner(Wake::At(latest)))?;
    }
    Ok(())
}

/// Does `work` while a thread of its own drives the stack; returns the result of the work. The work begins after the
/// first turn, when the policies are in force.
///
/// With a `priority` the loop's thread is SCHED_FIFO of that priority from before its first turn: a loop that has made
/// others real-time and is not real-time itself may never run again. If the system does not allow it, it stays an
/// ordinary thread.
///
/// # Errors
/// If the host could not be observed or obey, or no thread could be created.
pub fn while_driving<H, T>(
    stack: &mut Stack,
    host: &mut H,
    witness: &mut (dyn Witness + Send),
    priority: Option<u8>,
    work: impl FnOnce() -> T,
) -> Result<T, AgentError>
where
    H: Host + Send + ?Sized,
    H::Error: Display,
{
    let failed = |error: H::Error| AgentError::Host(error.to_string());
    let stop = AtomicBool::new(false);
    let (ready, in_force) = mpsc::sync_channel(1);
    thread::scope(|scope| {
        let stop = &stop;
        let body = move || -> Result<(), AgentError> {
            let sentry = priority.map(Sentry::begin).transpose()?;
            stack.turn(host).map_err(failed)?;
            witness.turned(stack.view(), stack.layers());
            let _ = ready.send(());
            drive(stack, host, witness, stop, sentry.as_ref()).map_err(failed)
        };
        let driver = thread::Builder::new()
            .name("quell-loop".into())
            .spawn_scoped(scope, body)
            .map_err(|source| AgentError::System { operation: "start the loop's thread", source })?;
        let result = in_force.recv().ok().map(|()| work());
        stop.store(true, Ordering::Release);
        let driven = driver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        driven.map(|()| result.expect("the first turn was made, so the work was done"))
    })
}
