//! Claims and verdicts: Quell's statements about itself or repeated from a paper, and whether a run confirms them.
//!
//! Pure: a [`Claim`] is data (`papers/TOPIC/claims.toml`), a [`Measure`] is an experiment's result, [`judge`] is the
//! rule between them, a [`Row`] is all three. Experiments are elsewhere.

mod assumption;
mod claim;
mod figure;
mod measure;
mod registry;
mod results;
mod row;
mod sentences;
mod treatment;
mod verdict;

pub use assumption::{Assumption, assumptions};
pub use claim::{Claim, Source};
pub use figure::{Asked, Cell, Figure, Switching, Value};
pub use measure::{Found, Measure};
pub use registry::{Topic, topic, topics};
pub use results::Results;
pub use row::Row;
pub use sentences::{Checked, Sentences};
pub use treatment::Treatment;
pub use verdict::{Expected, Interval, Side, Verdict, judge};

/// The page of docs/extend whose code is compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/extend/claim.md")]
    struct Claim;
}
