//! How many instructions of which function a guest executed between two marks, by CPU: exact, and in serial lock-step time
//! the same in every run.
//!
//! - `counts.c`: the QEMU plugin that counts; its mechanism is explained there
//! - `mark`: the two instructions that a program in the guest executes
//! - `blocks`: what the plugin writes
//! - `symbols`: where the guest's functions are
//! - `functions`: the counts of each function

mod blocks;
mod functions;
mod mark;
mod symbols;

use std::path::PathBuf;

pub use blocks::{Block, Counts};
pub use functions::{Function, by_function};
pub use mark::Mark;
pub use symbols::{Side, Symbols};

use crate::error::Result;
use crate::{Cache, Progress, plugin};

const SOURCES: [(&str, &str); 1] = [("counts.c", include_str!("counts.c"))];

/// The compiled plugin.
///
/// # Errors
/// When there is no C compiler, or it fails.
pub(crate) fn plugin(cache: &Cache, progress: &dyn Progress) -> Result<PathBuf> {
    plugin::compiled("counts", &SOURCES, cache, progress)
}
