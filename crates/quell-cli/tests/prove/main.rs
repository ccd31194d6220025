//! `quell prove` as its user meets it, with real processes.

mod ends;
mod harms;
mod null;
mod page;
mod refused;
#[path = "../protect/scene.rs"]
#[allow(dead_code, reason = "shared with the tests of `quell protect`")]
mod scene;
mod verdicts;
