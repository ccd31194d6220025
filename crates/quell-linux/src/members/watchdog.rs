//! For how long a workload may be paused: systemd ends a unit whose watchdog hears nothing, frozen or not (systemd issue 38517).

use quell_model::{Nanos, WorkloadId};

use super::Members;

impl Members {
    /// The longest pause that the watchdogs of a workload's units allow; None: it has none. A watchdog counts if the process
    /// that gives the sign of life is of the workload: environments are inherited by what a unit starts elsewhere.
    pub fn longest_pause(&mut self, id: WorkloadId) -> Option<Nanos> {
        let Members { threads, proc, .. } = self;
        let is_own = |pid: i32| threads.iter().any(|thread| thread.workload == id && thread.pid == pid);
        let processes = threads.iter().filter(|thread| thread.workload == id && thread.is_first());
        let allowed = processes.filter_map(|process| {
            let watchdog = proc.watchdog(process.pid)?;
            // Numbers of another namespace say nothing here.
            let counts = watchdog.pid.is_none_or(is_own) || proc.is_in_namespace(process.pid).unwrap_or(true);
            counts.then(|| watchdog.longest_pause())
        });
        allowed.min()
    }
}
