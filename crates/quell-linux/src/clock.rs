//! Times that have passed.

pub use quell_thread::clock::cpu_time;
pub(crate) use quell_thread::clock::now;
