//! The QEMU plugin that keeps the emulation from executing breakpoints that are gone. Its mechanism is explained in
//! `breakpoints.c`.

use std::path::PathBuf;

use crate::error::Result;
use crate::{Cache, Progress, plugin};

const SOURCES: [(&str, &str); 1] = [("breakpoints.c", include_str!("breakpoints.c"))];

/// The compiled plugin.
///
/// # Errors
/// When there is no C compiler, or it fails.
pub fn plugin(cache: &Cache, progress: &dyn Progress) -> Result<PathBuf> {
    plugin::compiled("breakpoints", &SOURCES, cache, progress)
}
