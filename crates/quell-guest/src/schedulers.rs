//! sched_ext schedulers from Rust's registry, built once into the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{LabError, Result};
use crate::{Cache, Progress, tool};

/// A scheduler that the registry offers as a program.
#[derive(Clone, Copy, Debug)]
pub struct Scheduler {
    /// Its name and its program's.
    pub name: &'static str,
    /// The version that is built.
    pub version: &'static str,
}

/// Those that the lab can build.
pub const SCHEDULERS: [Scheduler; 5] = [
    Scheduler { name: "scx_flash", version: "1.1.4" },
    Scheduler { name: "scx_cosmos", version: "1.1.7" },
    Scheduler { name: "scx_lavd", version: "1.1.4" },
    Scheduler { name: "scx_bpfland", version: "1.1.4" },
    Scheduler { name: "scx_layered", version: "1.1.4" },
];

/// Prerequisites of their build beside Rust and clang, by a file that shows that each is there.
const NEEDS: [(&str, &str); 5] = [
    ("usr/include/libelf.h", "libelf-dev"),
    ("usr/include/zstd.h", "libzstd-dev"),
    ("usr/include/seccomp.h", "libseccomp-dev"),
    ("usr/bin/protoc", "protobuf-compiler"),
    ("usr/bin/pkg-config", "pkg-config"),
];
/// Versions of clang that can compile their BPF programs, the best known first.
const CLANGS: [u32; 6] = [19, 20, 21, 18, 17, 16];

/// The scheduler's program from the cache; built if it is not there.
///
/// # Errors
/// When the compiler or a library is missing, or the build fails.
pub fn program(cache: &Cache, name: &str, progress: &dyn Progress) -> Result<PathBuf> {
    let scheduler = SCHEDULERS.iter().find(|scheduler| scheduler.name == name).ok_or_else(|| LabError::BadOption {
        option: "scheduler",
        why: format!("the lab does not know how to build {name}"),
    })?;
    let entry = cache.get_or_make(&format!("{}-{}", scheduler.name, scheduler.version), |dir| {
        let (clang, libclang) = compiler(Path::new("/"))?;
        progress.step(&format!("building {name} {} from the registry (some minutes, once)", scheduler.version));
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "--locked", "--quiet", "--root"]).arg(dir);
        cargo.arg(format!("{name}@{}", scheduler.version)).env("CARGO_TARGET_DIR", dir.join("target"));
        cargo.env("BPF_CLANG", clang).env("LIBCLANG_PATH", libclang).current_dir(dir);
        tool::stdout(&mut cargo, "cargo")?;
        let target = dir.join("target");
        std::fs::remove_dir_all(&target).map_err(LabError::io("remove", &target))
    })?;
    Ok(entry.join("bin").join(name))
}

/// A clang and the directory of its library, if nothing that the build needs is missing; else all that is.
fn compiler(root: &Path) -> Result<(PathBuf, PathBuf)> {
    let mut missing: Vec<_> = NEEDS.into_iter().filter(|(file, _)| !root.join(file).exists()).collect();
    let clang = clang(root);
    if clang.is_none() {
        missing.push(("clang", "clang-19"));
    }
    let (files, packages) = missing.iter().copied().unzip();
    clang.filter(|_| missing.is_empty()).ok_or(LabError::MissingForBuild { files, packages })
}

fn clang(root: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut versions = CLANGS.iter().map(|version| {
        (root.join(format!("usr/bin/clang-{version}")), root.join(format!("usr/lib/llvm-{version}/lib")))
    });
    versions.find(|(program, library)| program.exists() && library.exists())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn put(root: &Path, file: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn all_that_is_missing_is_named_at_once() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "usr/include/libelf.h");
        put(root.path(), "usr/bin/pkg-config");
        let error = compiler(root.path()).unwrap_err().to_string();
        assert!(error.ends_with("apt-get install libzstd-dev libseccomp-dev protobuf-compiler clang-19"), "{error}");
        assert!(error.contains("usr/include/zstd.h") && !error.contains("libelf"), "{error}");
        for (file, _) in NEEDS {
            put(root.path(), file);
        }
        put(root.path(), "usr/bin/clang-20");
        assert!(compiler(root.path()).is_err(), "no library");
        put(root.path(), "usr/lib/llvm-20/lib/libclang.so");
        assert!(compiler(root.path()).unwrap().0.ends_with("clang-20"));
    }
}
