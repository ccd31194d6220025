//! Obstacles on this machine to Quell's promises, and how to fix them.
//!
//! [`examine`] reads, [`findings`] judges. Nothing is changed.

mod facts;
mod findings;
mod mask;
mod read;

pub use facts::{CgroupV1, Facts, IdleState, Interrupt, Receive, SchedExt, Turbo, Valued};
pub use findings::{Concern, Evidence, Finding, findings};
pub use read::examine;
