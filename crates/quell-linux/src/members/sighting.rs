//! What selectors are compared with: read once for all selectors of a look, and only if one of them asks.

use std::cell::OnceCell;
use std::path::Path;

use super::command::Command;
use crate::LinuxError;
use crate::cgroup::{Tree, line_contains};
use crate::procfs::ProcFs;

/// One look at the machine.
#[derive(Debug)]
pub(crate) struct Sighting {
    /// The cgroups.
    pub tree: Tree,
    lines: OnceCell<Vec<(i32, Vec<u8>)>>,
}

impl Sighting {
    /// Of the cgroups below this root.
    pub fn of(cgroup: &Path) -> Sighting {
        Sighting { tree: Tree::at(cgroup), lines: OnceCell::new() }
    }

    /// The processes that this selector names, without the exempt ones.
    ///
    /// # Errors
    /// If a process cannot be read.
    pub fn running(&self, proc: &mut ProcFs, exempt: &[i32], command: &Command) -> Result<Vec<i32>, LinuxError> {
        let mut found = Vec::new();
        let fit = |(pid, line): &&(i32, Vec<u8>)| !exempt.contains(pid) && line_contains(line, &command.line.text);
        for (pid, _) in self.lines(proc)?.iter().filter(fit) {
            if command.is_meant(proc, *pid, None)? {
                found.push(*pid);
            }
        }
        Ok(found)
    }

    fn lines(&self, proc: &mut ProcFs) -> Result<&[(i32, Vec<u8>)], LinuxError> {
        if let Some(known) = self.lines.get() {
            return Ok(known);
        }
        let mut pids = Vec::new();
        proc.pids(&mut pids)?;
        let mut lines = Vec::with_capacity(pids.len());
        for pid in pids {
            if let Some(line) = proc.command_line(pid)? {
                lines.push((pid, line.to_vec()));
            }
        }
        Ok(self.lines.get_or_init(|| lines))
    }
}
