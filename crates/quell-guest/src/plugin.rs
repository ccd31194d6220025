//! Compiles plugins for QEMU, on first use, by the system's C compiler.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;

use crate::error::{LabError, Result};
use crate::{Cache, Progress, tool};

/// All symbols are bound when QEMU loads the plugin, so that a QEMU that lacks one is refused then and not later.
const FLAGS: [&str; 7] = ["-std=gnu11", "-O2", "-Wall", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,now"];

/// The plugin `name` made of these files, which are names and texts; those that end in `.c` are compiled.
pub(crate) fn compiled(name: &str, files: &[(&str, &str)], cache: &Cache, progress: &dyn Progress) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    (files, FLAGS).hash(&mut hasher);
    let library = format!("{name}.so");
    let entry = cache.get_or_make(&format!("{name}-{:016x}", hasher.finish()), |dir| {
        progress.step(&format!("compiling QEMU's plugin {name}"));
        for (file, text) in files {
            let path = dir.join(file);
            fs::write(&path, text).map_err(LabError::io("write", &path))?;
        }
        let mut compiler = Command::new("cc");
        compiler.args(FLAGS).args(["-o", &library]).current_dir(dir);
        compiler.args(files.iter().map(|(file, _)| file).filter(|file| file.ends_with(".c")));
        tool::stdout(&mut compiler, "gcc").map(drop)
    })?;
    Ok(entry.join(library))
}
