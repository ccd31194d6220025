//! The QEMU plugin that makes the guest's time a function of the instructions executed. Its mechanism is explained in
//! `lockstep.h`.

use std::path::PathBuf;

use crate::error::Result;
use crate::{Cache, Progress, plugin};

const SOURCES: [(&str, &str); 4] = [
    ("plugin.c", include_str!("plugin.c")),
    ("rounds.c", include_str!("rounds.c")),
    ("lockstep.h", include_str!("lockstep.h")),
    ("qemu.h", include_str!("qemu.h")),
];

/// The compiled plugin.
///
/// # Errors
/// When there is no C compiler, or it fails.
pub fn plugin(cache: &Cache, progress: &dyn Progress) -> Result<PathBuf> {
    plugin::compiled("lockstep", &SOURCES, cache, progress)
}
