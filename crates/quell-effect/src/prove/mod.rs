//! An experiment that alternates: off and on in random turns, and what may be concluded from it.
//!
//! *Design.* The time is cut into blocks of one length; of each *group* of neighbouring blocks one, drawn at random, is off (a
//! randomised block design over time, Fisher 1935; "switchback", Bojinov, Simchi-Levi and Zhao 2023,
//! <https://doi.org/10.1287/mnsc.2022.4583>). The beginning of each block is dropped, whether the block before it was another or not.
//!
//! *Test.* If off and on do not differ, the drawn block is one like the others, whatever the load does and however values depend on
//! each other: so the draw itself is the reference, and the true one is compared with [`DRAWS`] others. No assumption about the
//! values is made; a slow drift is in all blocks of a group.
//!
//! *Stopping.* It may end at five looks that are fixed beforehand. They share 5 % of wrong verdicts by the rule of Lan and DeMets
//! (1983, <https://doi.org/10.1093/biomet/70.3.659>) in Pocock's form, on the draws themselves (Plamadeala and Rosenberger 2012,
//! <https://doi.org/10.1214/11-AOS941>). Between looks nothing is concluded, so that looking more often changes nothing.

mod design;
mod draws;
mod found;
mod series;
mod verdict;

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;

pub use design::{Design, Request, Turn};
pub use found::{Arms, CarryOver, Found, analyse};
pub use series::Measured;
pub use verdict::Verdict;

/// Draws that the true one is compared with.
pub const DRAWS: usize = 999;
/// Wrong verdicts, in all looks together.
pub const WRONG: f64 = 0.05;
