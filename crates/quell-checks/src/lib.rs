//! Checks of the project itself in `make lint`, as tests:
//!
//! - `tests/foreign.rs`: what other users name is made safe before it is printed
//! - `tests/licences.rs`: the licence of every crate that is linked, against `deny.toml`
//! - `tests/rooms`: the top-level modules of each crate form no circle, and neither they nor structs grow too large
