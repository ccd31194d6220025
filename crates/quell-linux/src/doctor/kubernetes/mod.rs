//! What on a node of Kubernetes is in the way of reservations for pods, and how to fix it.
//!
//! [`examine`] reads below a root, [`findings`] judges. Nothing is changed.

mod facts;
mod findings;
mod read;

pub use facts::{Driver, Facts, Runtime};
pub use findings::findings;
pub use read::{examine, roots};
