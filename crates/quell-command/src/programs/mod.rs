//! Programs that a command starts and ends: a server, an antagonist, a load.

pub mod antagonist;
mod launch;
pub mod load;
mod post;
pub mod server;

use std::path::Path;

use anyhow::Result;
use quell_bench::antagonist::{AntagonistSpec, Kind};
use quell_bench::{cache, memory};

pub use launch::{found, launched};
pub use load::Load;
pub use post::Poster;

/// Assumed where the machine does not say how large its cache is.
const UNKNOWN_LLC_BYTES: u64 = 32 << 20;

/// The usual antagonist of a kind on this machine.
///
/// # Errors
/// If the machine's caches cannot be read.
pub fn usual(kind: Kind, threads: u32) -> Result<AntagonistSpec> {
    let llc_bytes = cache::llc_bytes(Path::new("/sys"))?.unwrap_or(UNKNOWN_LLC_BYTES);
    Ok(AntagonistSpec::usual(kind, threads, llc_bytes))
}

/// Refuses an antagonist that cannot be run, or not on this machine.
///
/// # Errors
/// The reason, and what would do.
pub fn check(spec: &AntagonistSpec) -> Result<()> {
    spec.check()?;
    Ok(memory::check(Path::new("/proc"), "working set", spec.working_set_bytes, "give a smaller --working-set")?)
}
