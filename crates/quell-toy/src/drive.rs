//! Driving a stack of policies on the host for a while.

use quell_model::{Host, Nanos, Policy, Stack, Wake};

use crate::ToyHost;

/// Turns the loop until this time; after each turn `seen` may look at it.
pub fn run<P: Policy>(
    host: &mut ToyHost,
    stack: &mut Stack<P>,
    until: Nanos,
    mut seen: impl FnMut(&ToyHost, &Stack<P>),
) {
    while host.now() < until {
        let Ok(wake) = stack.turn(host);
        seen(host, stack);
        let Ok(()) = host.wait(wake.sooner(Wake::At(until)));
    }
}
