//! `quell protect` and `quell disable` as their user meets them, with real processes.

mod effect;
mod enable;
mod ends;
mod gap;
mod histogram;
mod keep;
mod names;
mod policy;
mod scene;
mod screen;
