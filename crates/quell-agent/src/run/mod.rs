//! `quell run`: the agent's work, from its configuration to the last value that is put back.
//!
//! [`agent`] is the loop with its workloads and its configuration; [`membership`] attaches the configured workloads as
//! they start and end; [`vigil`] detects other programs that set the same values, and [`rivals`] decides when Quell
//! backs off (pure); [`shadow`] and [`dry`] are the two modes that change nothing. [`privileges`] drops the privileges
//! that are not needed; [`degraded`] is what follows when Quell's scheduler ended (pure).

pub mod agent;
pub mod degraded;
pub mod dry;
mod failures;
pub mod membership;
pub mod privileges;
pub mod rivals;
pub mod shadow;
pub mod vigil;
mod warnings;

pub use agent::{Agent, Extras, Outcome};
pub use degraded::{Degraded, Ends};
pub use dry::PrintedJournal;
pub use shadow::Shadow;
