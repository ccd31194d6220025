//! A toy host to test policies on: virtual time, a few hundred lines, no kernel model.
//!
//! A workload works on one of two levels, which do not compete with each other: *requests* run on CPUs that it was
//! granted ([`Arrivals`]; Caladan's world), *threads* share CPUs by set, class and weight ([`ToyWorkload::threads`];
//! the world of stock Linux). Both load the last-level cache and the memory bus ([`memory`]), whose contention slows
//! them. Rules are executed by the reference functions of [`quell_model::rule`], leases by
//! [`quell_model::LeaseBook`]. [`Faults`] make it refuse commands and lose workloads.
//!
//! For a model that is held against a real kernel, see the simulator; this one only reacts in the right direction.

mod clock;
mod drive;
mod faults;
mod granted;
mod host;
mod knobs;
mod load;
mod machine;
mod member;
pub mod memory;
mod observe;
mod shared;

pub use drive::run;
pub use faults::Faults;
pub use host::ToyHost;
pub use load::{Arrivals, CacheUse, ToyWorkload};
pub use machine::Machine;
