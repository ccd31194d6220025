//! Quell's policies: pure state machines, one module per published system, one registry.
//!
//! A policy reads like its paper: algorithm names, constants and units as there, each constant with its section in the
//! doc comment. None does I/O, asks for the time or knows its host.

pub mod caladan;
mod cores;
pub mod dasec;
pub mod edgeiso;
pub mod elfen;
pub mod guard;
pub mod heracles;
pub mod his;
pub mod invariant;
pub mod kit;
pub mod none;
mod page;
mod parameter;
pub mod parties;
pub mod recommend;
mod registry;
pub mod rkube;
pub mod sdc;
pub mod shenango;
pub mod vas;

pub use page::{reference, signals_and_knobs};
pub use parameter::{Kind, Parameter};
pub use registry::{AnyPolicy, PolicyError};
