//! The scheduler on a real kernel, in the lab. Each module's tests share a boot.
//!
//! On another kernel than the lab's first choice: `QUELL_TEST_KERNEL=7.0.13 cargo test -p quell-scx`.

mod caches;
mod callbacks;
mod chaos;
mod cookies;
mod counters;
mod fair;
mod grace;
mod grant;
mod hogs;
mod hotplug;
mod limits;
mod moves;
mod passage;
mod programs;
mod recorded;
mod requests;
mod servers;
mod sockets;
mod spare;
mod stay;
mod support;
mod switches;
mod together;
mod turns;
mod upkeep;
