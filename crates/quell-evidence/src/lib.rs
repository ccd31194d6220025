//! Claims and verdicts: what Quell says about itself or repeats from a paper, and whether a run bears it out.
//!
//! Pure: a [`Claim`] is data, [`Row::measured`] judges a measured value against it. Who measures is elsewhere.

mod claim;
mod registry;
mod row;

pub use claim::{Claim, Expected, Source, Tolerance};
pub use registry::{TOPICS, Topic, caladan, fairness, gap, queueing, rkube, topic, vas};
pub use row::{Row, Verdict};
