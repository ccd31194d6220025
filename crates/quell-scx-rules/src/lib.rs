//! The kernel half, compiled for this machine: its rules, and all of it on a kernel of this crate's own. See the tests.

#[cfg(test)]
mod budget;
#[cfg(test)]
mod half;
#[cfg(test)]
mod races;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod tests;
