//! For how long a workload may be paused: systemd ends a unit whose watchdog gets no heartbeat, frozen or not (systemd issue 38517).

use quell_model::{Class, Nanos, Workload, WorkloadId};

use super::systemd::Watchdog;
use super::{Members, Resolved};
use crate::{cgroup, clock};

impl Members {
    /// The longest pause that the watchdogs of a workload's units allow; None: it has none. None at all while systemd has not
    /// said it: a unit that is ended costs more than a pause that is left out.
    pub fn longest_pause(&mut self, id: WorkloadId) -> Option<Nanos> {
        let Members { threads, proc, search, .. } = self;
        let now = clock::now();
        let processes = threads.iter().filter(|thread| thread.workload == id && thread.is_first());
        let allowed = processes.filter_map(|process| {
            let path = proc.systemd_cgroup(process.pid)?;
            match search.systemd.watchdog(cgroup::unit_of(path)?, now) {
                Watchdog::Absent => None,
                Watchdog::Unknown => Some(Nanos::ZERO),
                // Less than half of it, because a unit gives a sign of life every half of it.
                Watchdog::Every(time) => Some(Nanos(time.0 / 16 * 7)),
            }
        });
        allowed.min()
    }

    /// Asks systemd about a workload that may be paused, so that its answer is there when it is.
    pub(super) fn ask_for_watchdogs(&mut self, workload: &Workload, resolved: &Resolved) {
        if !workload.pausable && workload.class != Class::BestEffort {
            return;
        }
        for path in resolved.group_paths() {
            let below = path.strip_prefix(&self.roots.cgroup).ok().and_then(|below| below.to_str());
            if let Some(unit) = below.and_then(cgroup::unit_of) {
                self.search.systemd.watchdog(unit, clock::now());
            }
        }
    }
}
