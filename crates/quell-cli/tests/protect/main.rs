//! `quell protect` and `quell disable` as their user meets them, with real processes.

mod effect;
mod ends;
mod keep;
mod names;
mod scene;
