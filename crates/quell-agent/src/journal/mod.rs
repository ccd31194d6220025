//! What must be put back when Quell is gone: an append-only file that is written before the machine is.
//!
//! One JSON record a line. Every write is recorded with the value that stood there first *before* it is made, so that
//! whatever kills Quell and whenever, the file says what to put back. It lies in `/run`, which lives as long as the
//! machine is up: what matters is that the record reaches the kernel before the write does, not that it reaches a disk.
//!
//! [`record`] is the format, [`mod@replay`] says what a journal's records amount to (both are pure), [`mod@file`] appends and
//! keeps the file small, [`owner`] looks up whose a thread is.

pub mod file;
pub mod owner;
pub mod record;
pub mod replay;

pub use file::FileJournal;
pub use owner::Owner;
pub use record::{Begin, Record};
pub use replay::{Entry, Replay, replay};
