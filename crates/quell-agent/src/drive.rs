//! The loop: turn after turn until told to stop.

use std::sync::atomic::{AtomicBool, Ordering};

use quell_model::{Host, Nanos, Wake};

use crate::stack::{Stack, Witness};

/// The loop looks at least this often whether it was told to stop, and for threads that were born meanwhile.
pub const LONGEST_WAIT: Nanos = Nanos::from_millis(100);

/// Turns until `stop` is set.
///
/// # Errors
/// The host's, if it could not observe or obey at all.
pub fn drive<H: Host + ?Sized>(
    stack: &mut Stack,
    host: &mut H,
    witness: &mut dyn Witness,
    stop: &AtomicBool,
) -> Result<(), H::Error> {
    while !stop.load(Ordering::Acquire) {
        let wake = stack.turn(host)?;
        witness.turned(stack.view(), stack.layers());
        let latest = stack.view().now + LONGEST_WAIT;
        host.wait(wake.sooner(Wake::At(latest)))?;
    }
    Ok(())
}
