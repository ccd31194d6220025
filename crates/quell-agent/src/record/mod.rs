//! Record and replay: the policies' observations and plans, turn by turn, in a file.
//!
//! Policies are deterministic functions of their observations, so the views and events of a run, and the policies'
//! states at its start, reproduce every plan.

pub mod format;
mod reader;
mod replay;
mod shape;
mod writer;

pub use reader::Record;
pub use replay::{Replayed, Summary, With, name, replay};
pub use writer::Recorder;
