//! Contention: what threads that run at the same time do to each other's speed.
//!
//! A running thread takes this long for an instruction: the cycles that stay within its core, at its frequency and beside
//! its siblings, and the time of its references to the last-level cache, of which some go on to memory. [`profile`]
//! says that of a piece of work, [`library`] has known ones, [`llc`] says who has how much of a cache, [`memory`] how
//! slow memory is under load, [`sibling`] what CPUs of a core take from each other, and [`solve`] brings all threads of
//! a socket into balance. All of that is pure; [`settled`] puts it together for threads that run for ever.
//!
//! While time passes, `follow` reports to `live` what runs where; `balance` keeps the balances of each socket that are known
//! already, `cache` lets the parts of a cache move step by step, `phases` numbers the kinds of work, `meters` says how good
//! the counters are that policies see, `gpu` is the load that a GPU puts on memory.
//!
//! Work is counted in nanoseconds of a thread that runs alone on the idle machine at its highest frequency, the cache
//! full of its own data. That is speed 1; nothing is faster.

mod balance;
mod cache;
mod follow;
mod gpu;
pub mod library;
mod live;
pub mod llc;
pub mod memory;
mod meters;
mod phases;
pub mod profile;
pub mod settled;
pub mod sibling;
pub mod solve;
mod spec;

pub(crate) use follow::{Contention, Lifted};
pub use meters::{MeasuredOfMemory, Meter, Meters};
pub(crate) use phases::{Phases, Whose};
pub use profile::{MissCurve, Profile, ProfileName};
pub use spec::ContentionSpec;
