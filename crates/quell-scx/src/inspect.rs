//! What the loaded scheduler says of itself.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::skel::Skel;

use crate::Grant;

/// One of the scheduler's programs, as the kernel took it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in the source.
    pub name: String,
    /// How many instructions the kernel's verifier looked at, all paths together. It gives up at a million.
    pub verified_instructions: u64,
}

impl Grant {
    /// The programs, and what it took the kernel to verify them; empty where there is no /proc.
    #[must_use]
    pub fn programs(&self) -> Vec<Program> {
        let programs = self.skeleton.object().progs();
        let read = programs.filter_map(|program| {
            let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd())).ok()?;
            let verified_instructions = verified_instructions(&info)?;
            Some(Program { name: program.name().to_string_lossy().into_owned(), verified_instructions })
        });
        read.collect()
    }
}

fn verified_instructions(info: &str) -> Option<u64> {
    info.lines().find_map(|line| line.strip_prefix("verified_insns:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_description_of_a_program_is_read() {
        let info = "pos:\t0\nprog_type:\t27\nrecursion_misses:\t0\nverified_insns:\t4711\n";
        assert_eq!(verified_instructions(info), Some(4711));
        assert_eq!(verified_instructions("pos:\t0\n"), None, "an older kernel does not say");
    }
}
