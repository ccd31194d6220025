//! Finding a program, and starting one that does not outlive this process.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result};
use quell_linux::sched::{Kernel, ThreadCalls, ThreadClass};
use quell_model::SchedClass;
use rustix::process::{Signal, set_parent_process_death_signal};

/// A program of this machine.
pub fn found(tool: &str, package: &str) -> Result<PathBuf> {
    let paths = ["/usr/bin", "/bin", "/usr/local/bin"].map(|dir| Path::new(dir).join(tool));
    let found = paths.into_iter().find(|path| path.exists());
    found.with_context(|| format!("{tool} is not installed; fix: apt-get install {package}"))
}

/// Starts the command's process in a scheduling class, which its threads inherit. It is killed when this process ends.
pub fn launched(command: &mut Command, class: SchedClass) -> Result<Child> {
    let mut kernel = Kernel::new()?;
    let set = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        match class {
            SchedClass::NORMAL => Ok(()),
            class => kernel.set_class(0, &ThreadClass { class, reset_on_fork: false }),
        }
    };
    // SAFETY: between fork and exec, two system calls and no memory.
    unsafe { command.pre_exec(set) };
    Ok(command.spawn()?)
}
