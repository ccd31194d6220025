//! The agent: one loop that drives a stack of policies on a host, safely.
//!
//! A turn of the loop is [`quell_model::Stack`]'s: observe once, then let every layer step and apply. [`drive`] repeats
//! it until asked to stop. Every observer of the loop (recording, status, explanations) is a [`stack::Witness`]: it
//! sees each turn and cannot change it.

pub mod api;
mod attribution;
pub mod config;
pub mod cooperate;
pub mod drive;
pub mod explain;
mod failures;
pub mod guardian;
pub mod journal;
pub mod lock;
pub mod log;
pub mod metrics;
pub mod observers;
pub mod own;
mod pods;
pub mod realtime;
pub mod record;
pub mod run;
pub mod stack;
pub mod watch;
pub mod wire;

mod error;

pub use error::AgentError;
