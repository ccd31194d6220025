//! Machines made of plain files, for tests and measurements.

mod threads;
mod tree;

pub use threads::FakeThreads;
pub use tree::FakeTree;
