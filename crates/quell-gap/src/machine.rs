//! The machine that is measured.

use std::path::PathBuf;

use quell_linux::mounted_hierarchies;
use quell_model::CpuSet;

use crate::GapError;

/// The machine's file trees.
#[derive(Clone, Debug)]
pub struct Machine {
    /// procfs.
    pub proc: PathBuf,
    /// Cgroup hierarchies.
    pub hierarchies: Vec<PathBuf>,
    /// CPUs that are online.
    pub cpus: CpuSet,
}

impl Machine {
    /// This machine.
    ///
    /// # Errors
    /// If the list of CPUs cannot be read.
    pub fn here() -> Result<Machine, GapError> {
        let path = PathBuf::from("/sys/devices/system/cpu/online");
        let text = std::fs::read_to_string(&path).map_err(|source| GapError::Read { path: path.clone(), source })?;
        let cpus = text.parse().map_err(|_| GapError::Form { path, expected: "a list of CPUs" })?;
        Ok(Machine { proc: "/proc".into(), hierarchies: mounted_hierarchies(), cpus })
    }
}
