//! What selectors are compared with: read once for all selectors of a look, and only if one of them asks.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::Path;

use super::command::Command;
use crate::LinuxError;
use crate::cgroup::{Tree, line_contains};
use crate::procfs::ProcFs;

/// Command lines are kept up to this length together; beyond it they are read for each selector.
const KEPT: usize = 2 * 1024 * 1024;

/// One look at the machine.
#[derive(Debug)]
pub(crate) struct Sighting {
    /// The cgroups.
    pub tree: Tree,
    pids: OnceCell<Vec<i32>>,
    kept: RefCell<Kept>,
}

/// Command lines by process.
#[derive(Debug, Default)]
struct Kept {
    lines: HashMap<i32, Vec<u8>>,
    length: usize,
}

impl Sighting {
    /// Of the cgroups below this root.
    pub fn of(cgroup: &Path) -> Sighting {
        Sighting { tree: Tree::at(cgroup), pids: OnceCell::new(), kept: RefCell::default() }
    }

    /// The processes that this selector names, without the exempt ones. User and file are asked for first.
    ///
    /// # Errors
    /// If a process cannot be read.
    pub fn running(&self, proc: &mut ProcFs, exempt: &[i32], command: &Command) -> Result<Vec<i32>, LinuxError> {
        let mut found = Vec::new();
        let pids = match self.pids.get() {
            Some(known) => known,
            None => {
                let mut pids = Vec::new();
                proc.pids(&mut pids)?;
                self.pids.get_or_init(|| pids)
            }
        };
        for &pid in pids.iter().filter(|pid| !exempt.contains(pid)) {
            if command.is_meant(proc, pid, None)? && self.contains(proc, pid, &command.line.text)? {
                found.push(pid);
            }
        }
        Ok(found)
    }

    fn contains(&self, proc: &mut ProcFs, pid: i32, text: &str) -> Result<bool, LinuxError> {
        let mut kept = self.kept.borrow_mut();
        if let Some(line) = kept.lines.get(&pid) {
            return Ok(line_contains(line, text));
        }
        let line = proc.command_line(pid)?.unwrap_or_default();
        if kept.length + line.len() <= KEPT {
            kept.length += line.len();
            kept.lines.insert(pid, line.to_vec());
        }
        Ok(line_contains(line, text))
    }
}
