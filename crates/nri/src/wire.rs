//! The bytes on the socket: pure functions and state machines.

pub mod bound;
pub mod frame;

pub use frame::{Decoder, Frame, Malformed};
