//! Effect of Ctrl-C and SIGTERM on a running command.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Sets `stop` at the first SIGINT or SIGTERM, so that the command can end in order; the second one kills.
pub fn set_on_interrupt(stop: &Arc<AtomicBool>) -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // In this order: while `stop` is unset the first hook does nothing and the second one sets it.
        flag::register_conditional_default(signal, Arc::clone(stop))
            .and_then(|_| flag::register(signal, Arc::clone(stop)))
            .with_context(|| format!("catch signal {signal}"))?;
    }
    Ok(())
}
