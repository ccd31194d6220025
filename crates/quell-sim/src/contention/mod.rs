//! Contention: what threads that run at the same time do to each other's speed.
//!
//! A running thread takes so long for an instruction: the cycles that stay within its core, at its frequency and beside
//! its siblings, and the time of its references to the last-level cache, of which some go on to memory. [`profile`]
//! says that of a piece of work, [`library`] has known ones, [`llc`] says who has how much of a cache, [`memory`] how
//! slow memory is under load, [`sibling`] what CPUs of a core take from each other, and [`solve`] brings all threads of
//! a socket into balance. All of that is pure; [`settled`] puts it together for threads that run for ever.
//!
//! Work is counted in nanoseconds of a thread that runs alone on the idle machine at its highest frequency, the cache
//! full of its own data. That is speed 1; nothing is faster.

pub mod library;
pub mod llc;
pub mod memory;
pub mod profile;
pub mod settled;
pub mod sibling;
pub mod solve;
mod spec;

pub use profile::{MissCurve, Profile, ProfileName};
pub use spec::ContentionSpec;
