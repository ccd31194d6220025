//! What a change did to a service: measured before and after it, or off and on in turns.
//!
//! A [`source`] measures a service while it runs: its own histogram, a probe, or the queueing delay of its threads. [`phase`] keeps
//! what was measured in slices of time, [`compare()`] sets two phases against each other, and [`report`] says it in words, bars and
//! JSON. [`prove`] has the design and the analysis of an experiment that alternates. All but [`source`] and [`watch`] is pure.

pub mod compare;
mod error;
pub mod phase;
pub mod prove;
pub mod quantile;
pub mod report;
pub mod source;
mod watch;

pub use compare::{Comparison, Finding, compare};
pub use error::{EffectError, Result};
pub use phase::{Measure, Phase, Slice};
pub use report::Effect;
pub use source::Source;
pub use watch::watch;
