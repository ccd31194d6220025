//! From what policies want to an ordered list of writes.
//!
//! The order keeps every moment in between harmless: what stops comes first; partitions end before their CPUs move;
//! CPU sets of cgroups shrink, then grow from the parents down, then shrink from the children up; threads lose
//! real-time classes before others get them; a partition is claimed when its CPUs have been taken from everybody else;
//! what goes on comes last.

mod compile;
pub(crate) mod cpusets;
mod groups;
mod solo;
mod standing;
mod threads;
mod wanted;

pub(crate) use compile::{Compiler, Subject};
pub(crate) use standing::Standing;
pub(crate) use wanted::{Overrides, Wanted};
