//! The original values to restore when Quell is gone: an append-only file that is written before the machine is.
//!
//! One JSON record a line. Every write is recorded with the original value of its place *before* it is made, so that
//! the file says what to restore, however and whenever Quell is killed. It lies in `/run`, which lives as long as the
//! machine is up: the record must reach the kernel before the write does; it need not reach a disk.
//!
//! [`record`] is the format, [`mod@replay`] sums a journal's records up (both are pure), [`mod@file`] appends and keeps
//! the file small, [`owner`] looks up a thread's owner. [`owners`] keeps two Quells from one thread, and `others` finds
//! those beside this one.

mod conflicts;
pub mod file;
mod others;
pub mod owner;
pub mod owners;
mod ranges;
pub mod record;
pub mod replay;

pub use file::FileJournal;
pub use others::Others;
pub use owner::Owner;
pub use owners::Owners;
pub use record::{Begin, Record};
pub use replay::{Entry, Replay, replay};
