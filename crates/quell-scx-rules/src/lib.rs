//! The kernel half, compiled for this machine: its rules, and all of it on a kernel of this crate's own. See the tests.

#[cfg(test)]
mod budget;
#[cfg(test)]
mod counts;
#[cfg(test)]
#[allow(dead_code, reason = "the build reads the rest")]
mod faults {
    include!("../faults.rs");
}
#[cfg(test)]
mod fair_share;
#[cfg(test)]
mod half;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod notices;
#[cfg(test)]
mod progress;
#[cfg(test)]
mod races;
#[cfg(test)]
mod sending;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod shares;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod upkeep;
