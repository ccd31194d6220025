//! The QEMU plugin that makes the guest's time a function of the instructions executed. Its mechanism is explained in
//! `lockstep.c`; here it is compiled on first use by the system's C compiler.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;

use crate::error::{LabError, Result};
use crate::{Cache, Progress, tool};

const SOURCES: [(&str, &str); 2] = [("lockstep.c", include_str!("lockstep.c")), ("qemu.h", include_str!("qemu.h"))];

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
        compiler.args(FLAGS).args(["-o", "lockstep.so", "lockstep.c"]).current_dir(dir);
        tool::stdout(&mut compiler, "gcc").map(drop)
    })?;
    Ok(entry.join("lockstep.so"))
}
