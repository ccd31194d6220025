//! What is known of this machine and of a service: `quell recommend`, `quell protect` and `quell doctor` judge by the same facts.

mod looks;

use quell_model::Capabilities;
use quell_policy::recommend::{MachineFacts, OwnScheduler};

pub use looks::{LENGTH, look};

/// The facts of this machine, of which the stock host has these capabilities. As root the kernel is asked whether it takes Quell's
/// scheduler. `alone`: Quell manages nothing else.
pub fn this_machine(stock: &Capabilities, cpus: u32, alone: bool) -> MachineFacts {
    let own = match quell_scx::ready() {
        Err(error) => OwnScheduler::No(error.to_string()),
        Ok(()) => quell_daemon::refusal().map_or(OwnScheduler::Usable, OwnScheduler::No),
    };
    let facts = MachineFacts::new(cpus, own, |policy| quell_daemon::capabilities_for(stock, policy));
    // A user who may set real-time classes can run guard.
    let has_rights = rustix::process::geteuid().is_root() || !facts.cannot.contains_key("guard");
    MachineFacts { alone, has_rights, ..facts }
}
