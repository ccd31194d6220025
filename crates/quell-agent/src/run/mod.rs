//! `quell run`: the agent's work, from its configuration to the last value that is put back.
//!
//! [`agent`] is the loop with its workloads and its configuration; [`membership`] attaches what the configuration names
//! as it comes and goes; [`vigil`] sees who else sets the same values, and [`rivals`] decides when Quell gives way
//! (pure); [`shadow`] and [`dry`] are the two ways of running that change nothing. [`privileges`] gives up what is not
//! needed.

pub mod agent;
pub mod dry;
pub mod membership;
pub mod privileges;
pub mod rivals;
pub mod shadow;
pub mod vigil;
mod warnings;

pub use agent::{Agent, Extras, Outcome};
pub use dry::PrintedJournal;
pub use shadow::Shadow;
