//! What `make lint` checks of the project itself, as tests:
//!
//! - `tests/licences.rs`: the licence of every crate that is linked, against `deny.toml`
