//! The loop: turn after turn until asked to stop.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use quell_model::{Event, Host, Nanos, Outcome, Verdict, Wake};
use quell_thread::clock::now;

use crate::AgentError;
use crate::failures::{Failures, Next};
use crate::realtime::Sentry;
use crate::stack::{Stack, Witness};

/// Longest interval between the loop's checks for a request to stop, and its scans for new threads.
pub const LONGEST_WAIT: Nanos = Nanos::from_millis(100);

/// Longest wait for the first plans to settle.
pub const LONGEST_SETTLING: Nanos = Nanos::from_secs(5);

/// Turns until `stop` is set; a sentry gets a heartbeat each turn. What fails is tried again for a while.
///
/// # Errors
/// The host's, if it could not observe or obey again and again.
pub fn drive<H: Host + ?Sized>(
    stack: &mut Stack,
    host: &mut H,
    witness: &mut dyn Witness,
    stop: &AtomicBool,
    sentry: Option<&Sentry>,
) -> Result<(), H::Error>
where
    H::Error: Display,
{
    let mut failures = Failures::default();
    while !stop.load(Ordering::Acquire) {
        sentry.map(Sentry::beat);
        let turned = stack.turn(host).and_then(|wake| {
            witness.turned(stack.view(), stack.layers());
            let latest = stack.view().now + LONGEST_WAIT;
            host.wait(wake.sooner(Wake::At(latest)))
        });
        match turned {
            Ok(()) => _ = failures.none(now()),
            Err(error) => match failures.another(&error.to_string(), now()) {
                Next::Again(pause) => thread::sleep(pause.into()),
                Next::GiveUp => return Err(error),
            },
        }
    }
    Ok(())
}

/// Does `work` while a thread of its own drives the stack; returns the result of the work. The work begins when the policies
/// are in force: after the first turn, and when nothing of its plans is under way any more. It gets `false` if that takes
/// longer than [`LONGEST_SETTLING`].
///
/// With a `priority` the loop's thread is SCHED_FIFO of that priority from before its first turn: a loop that has made
/// others real-time and is not real-time itself may never run again. If the system does not allow it, it stays an
/// ordinary thread. A loop that fails calls `on_failure`: the work is to end then.
///
/// # Errors
/// If the host could not be observed or obey, or no thread could be created.
pub fn while_driving<H, T>(
    stack: &mut Stack,
    host: &mut H,
    witness: &mut (dyn Witness + Send),
    priority: Option<u8>,
    on_failure: &(dyn Fn() + Sync),
    work: impl FnOnce(bool) -> T,
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
            let mut wake = stack.turn(host).map_err(failed)?;
            witness.turned(stack.view(), stack.layers());
            let end = stack.view().now + LONGEST_SETTLING;
            while !has_settled(stack) && stack.view().now < end && !stop.load(Ordering::Acquire) {
                sentry.as_ref().map(Sentry::beat);
                host.wait(wake.sooner(Wake::At(stack.view().now + LONGEST_WAIT))).map_err(failed)?;
                wake = stack.turn(host).map_err(failed)?;
                witness.turned(stack.view(), stack.layers());
            }
            let _ = ready.send(has_settled(stack));
            drive(stack, host, witness, stop, sentry.as_ref()).map_err(failed).inspect_err(|_| on_failure())
        };
        let driver = thread::Builder::new()
            .name("quell-loop".into())
            .spawn_scoped(scope, body)
            .map_err(|source| AgentError::System { operation: "start the loop's thread", source })?;
        let result = in_force.recv().ok().map(work);
        stop.store(true, Ordering::Release);
        let driven = driver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        driven.map(|()| result.expect("the first turn was made, so the work was done"))
    })
}

/// Is nothing of the last plans under way?
fn has_settled(stack: &Stack) -> bool {
    let now = stack.view().now;
    let is_under_way = |event: &Event| matches!(event, Event::Outcome(Outcome { verdict: Verdict::Pending(until), .. }) if *until > now);
    !stack.layers().iter().flat_map(|layer| &layer.outcomes).any(is_under_way)
}
