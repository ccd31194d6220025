//! The programs around the kernel: QEMU, the daemon that serves the host's files, and busybox for the guest.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::{Apt, BASE_SUITE, QEMU_SUITE};
use crate::error::{LabError, Result};
use crate::{Cache, Progress, tool};

/// The QEMU series that the lock-step plugin knows.
const SERIES: &str = "10.0.";
/// Libraries that the host has for sure, and that must be the host's own.
const FROM_THE_HOST: [&str; 3] = ["libc6_", "libgcc-s1_", "gcc-"];
const LIBRARY_DIRS: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];

/// A QEMU that emulates x86-64.
#[derive(Clone, Debug)]
pub struct Qemu {
    /// The program.
    pub program: PathBuf,
    /// Directory of the unpacked files, unless it is the system's.
    root: Option<PathBuf>,
}

impl Qemu {
    /// `$QUELL_LAB_QEMU`, else the system's QEMU if it is of the series 10.0, else Debian's in the cache.
    ///
    /// # Errors
    /// When it has to be fetched and cannot be, or does not run.
    pub fn get(cache: &Cache, progress: &dyn Progress) -> Result<Self> {
        if let Some(program) = std::env::var_os("QUELL_LAB_QEMU").filter(|path| !path.is_empty()) {
            let qemu = Self { program: program.into(), root: None };
            qemu.version()?;
            return Ok(qemu);
        }
        let system = Self { program: "/usr/bin/qemu-system-x86_64".into(), root: None };
        if system.program.exists() && system.version().is_ok_and(|version| version.starts_with(SERIES)) {
            return Ok(system);
        }
        let root = cache.get_or_make("qemu-10.0", |dir| {
            progress.step(&format!("fetching QEMU (36 MB from {QEMU_SUITE})"));
            let apt = Apt::new(cache.root(), progress)?;
            apt.unpack_with_dependencies("qemu-system-x86", QEMU_SUITE, &FROM_THE_HOST, dir)?;
            Self::unpacked(dir).version().map(drop)
        })?;
        Ok(Self::unpacked(&root))
    }

    fn unpacked(root: &Path) -> Self {
        Self { program: root.join("usr/bin/qemu-system-x86_64"), root: Some(root.to_path_buf()) }
    }

    /// The command that starts it, with its libraries and firmware found.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(root) = &self.root {
            command.env("LD_LIBRARY_PATH", library_path(root));
            command.env("QEMU_MODULE_DIR", root.join("usr/lib/x86_64-linux-gnu/qemu"));
            for firmware in ["usr/share/qemu", "usr/share/seabios"] {
                command.arg("-L").arg(root.join(firmware));
            }
        }
        command
    }

    /// Is it of the series whose internals the plugins know?
    ///
    /// # Errors
    /// When it does not run.
    pub(crate) fn is_of_the_series(&self) -> Result<bool> {
        Ok(self.root.is_some() || self.version()?.starts_with(SERIES))
    }

    /// Its version, like `10.0.2`.
    ///
    /// # Errors
    /// When it does not run.
    pub fn version(&self) -> Result<String> {
        let text = tool::stdout(self.command().arg("--version"), "qemu-system-x86")?;
        parse_version(&text)
            .ok_or_else(|| LabError::UnfitQemu { path: self.program.clone(), why: "it reports no version".into() })
    }
}

fn parse_version(text: &str) -> Option<String> {
    let version = text.split("version ").nth(1)?.split_whitespace().next()?;
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
}

fn library_path(root: &Path) -> OsString {
    LIBRARY_DIRS.map(|dir| root.join(dir).into_os_string()).join(":".as_ref())
}

/// The daemon that serves the host's root directory to the guest (virtiofs).
#[derive(Clone, Debug)]
pub struct Virtiofsd {
    root: PathBuf,
}

impl Virtiofsd {
    /// The one of QEMU 7.2, the last that came with QEMU, from the cache.
    ///
    /// # Errors
    /// When it has to be fetched and cannot be.
    pub fn get(cache: &Cache, progress: &dyn Progress) -> Result<Self> {
        const PACKAGES: [&str; 6] =
            ["qemu-system-common", "libseccomp2", "libcap-ng0", "libglib2.0-0", "libpcre2-8-0", "libnuma1"];
        let root = cache.get_or_make("virtiofsd-7.2", |dir| {
            progress.step(&format!("fetching virtiofsd (4 MB from {BASE_SUITE})"));
            let packages = PACKAGES.map(|name| format!("{name}/{BASE_SUITE}"));
            Apt::new(cache.root(), progress)?.unpack(&packages, dir)
        })?;
        Ok(Self { root })
    }

    /// The command that starts it.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.root.join("usr/lib/qemu/virtiofsd"));
        command.env("LD_LIBRARY_PATH", library_path(&self.root));
        command
    }
}

/// The guest's basic commands, one static program.
#[derive(Clone, Debug)]
pub struct Busybox {
    /// The program.
    pub program: PathBuf,
    /// The commands that it offers.
    pub applets: Vec<String>,
}

impl Busybox {
    /// Debian's static busybox from the cache.
    ///
    /// # Errors
    /// When it has to be fetched and cannot be, or does not run.
    pub fn get(cache: &Cache, progress: &dyn Progress) -> Result<Self> {
        let root = cache.get_or_make("busybox", |dir| {
            progress.step(&format!("fetching busybox (1 MB from {BASE_SUITE})"));
            Apt::new(cache.root(), progress)?.unpack(&[format!("busybox-static/{BASE_SUITE}")], dir)?;
            let applets = tool::stdout(Command::new(program(dir)?).arg("--list"), "busybox-static")?;
            let list = dir.join("applets");
            fs::write(&list, applets).map_err(LabError::io("write", &list))
        })?;
        let list = root.join("applets");
        let applets = fs::read_to_string(&list).map_err(LabError::io("read", &list))?;
        Ok(Self { program: program(&root)?, applets: applets.lines().map(str::to_owned).collect() })
    }
}

fn program(root: &Path) -> Result<PathBuf> {
    let places = ["bin/busybox", "usr/bin/busybox"].map(|place| root.join(place));
    let found = places.iter().find(|path| path.exists()).cloned();
    found.ok_or_else(|| LabError::Malformed { path: root.to_path_buf(), why: "there is no busybox in it".into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read() {
        let text = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright (c) 2003-2025\n";
        assert_eq!(parse_version(text).as_deref(), Some("10.0.2"));
        assert_eq!(parse_version("something else"), None);
    }
}
