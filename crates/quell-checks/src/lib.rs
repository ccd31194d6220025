//! What `make lint` checks of the project itself, as tests:
//!
//! - `tests/licences.rs`: the licence of every crate that is linked, against `deny.toml`
//! - `tests/rooms`: the top-level modules of each crate stand in no circle, and neither they nor structs grow too large
