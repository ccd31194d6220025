//! Record and replay: what the policies saw and wanted, turn by turn, in a file.
//!
//! Policies are deterministic functions of what they have seen, so the views and events of a run, and the policies'
//! states at its start, give every plan again.

pub mod format;
mod reader;
mod replay;
mod shape;
mod writer;

pub use reader::Record;
pub use replay::{Replayed, Summary, With, name, replay};
pub use writer::Recorder;
