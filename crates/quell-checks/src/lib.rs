//! Checks of the project itself in `make lint`, as tests:
//!
//! - `tests/foreign.rs`: what other users name is made safe before it is printed
//! - `tests/licences.rs`: the licence of every crate that is linked, against `deny.toml`
//! - [`bad_inputs`], for the tests of the programs: what they refuse, and how
//! - [`documents`], for the tests of the programs: what their pages hold, and that each command line in them is one
//! - `tests/two_programs.rs`: the product links nothing of the laboratory
//! - `tests/rooms`: the top-level modules of each crate form no circle, and neither they nor structs grow too large

pub mod bad_inputs;
pub mod documents;
