//! `quell run`: the agent's work, from its configuration to the last value that is put back.
//!
//! [`agent`] is the loop with its workloads and its configuration, [`extras`] its options, [`mod@check`] finds faults before;
//! [`membership`] attaches the configured workloads as
//! they start and end; [`vigil`] detects other programs that set the same values, [`overridden`] sums up what they changed
//! (pure), and [`rivals`] decides when Quell backs off (pure); [`shadow`] and [`dry`] are the two modes that change nothing. [`privileges`] drops the privileges
//! that are not needed; [`alone`] is the API of a command without an agent; `control` carries out what it is asked to do, `leases` what was asked for while its caller is connected, `pods` takes a node's pods in, and [`switch`] is whether it is off;
//! [`degraded`] is what follows when Quell's scheduler ended (pure).

pub mod agent;
pub mod alone;
pub mod check;
mod control;
pub mod degraded;
pub mod departed;
pub mod dry;
pub mod extras;
mod leases;
mod log;
pub mod membership;
pub mod overridden;
mod pods;
pub mod privileges;
mod proving;
mod refusals;
mod reload;
pub mod remarks;
pub mod rivals;
pub mod shadow;
pub mod switch;
pub mod vigil;
mod warnings;

pub use agent::Agent;
pub use alone::{Alone, Answers};
pub use degraded::{Degraded, Ends, Loading};
pub use dry::PrintedJournal;
pub use extras::{Extras, Outcome};
pub use shadow::Shadow;
pub use switch::Switch;
