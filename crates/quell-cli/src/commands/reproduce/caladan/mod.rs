//! `quell reproduce caladan`.

mod real;

pub use real::run;
