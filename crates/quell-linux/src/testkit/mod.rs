//! Machines made of plain files, for tests and measurements.

mod groups;
mod hardware;
mod threads;
mod tree;

pub use groups::{FakeGroups, FakeResctrl};
pub use threads::FakeThreads;
pub use tree::FakeTree;
