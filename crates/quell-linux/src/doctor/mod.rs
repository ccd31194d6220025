//! Obstacles on this machine to Quell's promises, and how to fix them.
//!
//! [`examine`] reads, [`findings`] judges. Nothing is changed.

mod arm;
mod facts;
mod finding;
mod findings;
pub mod kubernetes;
mod mask;
mod read;

pub use facts::{CgroupV1, Facts, IdleState, Interrupt, Receive, SchedExt, Turbo, Valued};
pub use finding::{Concern, Evidence, Finding};
pub use findings::findings;
pub use read::examine;
