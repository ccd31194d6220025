//! Scenes that are played in a guest, on a real kernel.

pub mod boots;
pub mod peers;
pub mod scene;
