//! The QEMU plugin that makes the guest's time a function of the instructions executed. Its mechanism is explained in
//! `lockstep.h`; here it is compiled on first use by the system's C compiler.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;

use crate::error::{LabError, Result};
use crate::{Cache, Progress, tool};

const SOURCES: [(&str, &str); 4] = [
    ("plugin.c", include_str!("plugin.c")),
    ("rounds.c", include_str!("rounds.c")),
    ("lockstep.h", include_str!("lockstep.h")),
    ("qemu.h", include_str!("qemu.h")),
];

/// All symbols are bound when QEMU loads the plugin, so that a QEMU that lacks one is refused then and not later.
const FLAGS: [&str; 7] = ["-std=gnu11", "-O2", "-Wall", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,now"];

/// The compiled plugin.
///
/// # Errors
/// When there is no C compiler, or it fails.
pub fn plugin(cache: &Cache, progress: &dyn Progress) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    (SOURCES, FLAGS).hash(&mut hasher);
    let entry = cache.get_or_make(&format!("lockstep-{:016x}", hasher.finish()), |dir| {
        progress.step("compiling the lock-step plugin");
        for (name, text) in SOURCES {
            let path = dir.join(name);
            fs::write(&path, text).map_err(LabError::io("write", &path))?;
        }
        let mut compiler = Command::new("cc");
        compiler.args(FLAGS).args(["-o", "lockstep.so", "plugin.c", "rounds.c"]).current_dir(dir);
        tool::stdout(&mut compiler, "gcc").map(drop)
    })?;
    Ok(entry.join("lockstep.so"))
}
