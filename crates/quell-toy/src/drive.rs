//! Driving a policy on the host for a while.

use quell_model::{Cycle, Host, HostDomain, Nanos, Policy};

use crate::ToyHost;

/// Turns the loop until this time; after each turn `seen` may look at it.
pub fn run<P: Policy + ?Sized>(
    host: &mut ToyHost,
    policy: &mut P,
    cycle: &mut Cycle<HostDomain>,
    until: Nanos,
    mut seen: impl FnMut(&ToyHost, &Cycle<HostDomain>),
) {
    while host.now() < until {
        let Ok(wake) = cycle.turn(policy, host);
        seen(host, cycle);
        let Ok(()) = host.wait(wake.sooner(quell_model::Wake::At(until)));
    }
}
