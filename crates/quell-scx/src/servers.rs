//! Deferrable servers: which workload has one on which CPU, and what became of their budgets.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};

use quell_model::{CpuId, Nanos, WorkloadId};

use crate::layout::{MAX_CPUS, SERVERS, ServerState, ServingState};
use crate::{Grant, ScxError};

/// A server's budget was used up while its threads wanted to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted {
    pub workload: WorkloadId,
    pub cpu: CpuId,
    /// Number of such periods since the last call.
    pub periods: u64,
    /// The longest run beyond a budget since then.
    pub overrun: Nanos,
}

impl ServerState {
    fn is_of(&self, id: WorkloadId) -> bool {
        self.slot.load(Acquire) == id.0
    }

    fn is_on(&self) -> bool {
        self.on.load(Acquire) == 1
    }
}

impl Grant {
    fn serving(&self, cpu: CpuId) -> &ServingState {
        &self.shared().serving[cpu.index() % MAX_CPUS]
    }

    /// Was it loaded to have servers?
    #[must_use]
    pub fn has_servers(&self) -> bool {
        self.parts.servers
    }

    /// From now on the workload's threads run as a deferrable server on this CPU. A server that is there goes on: another
    /// budget and period count from the next period on. So does one that was taken back within its period.
    ///
    /// # Errors
    /// If there are too many on the CPU.
    pub fn set_server(
        &self,
        id: WorkloadId,
        cpu: CpuId,
        (budget, period): (Nanos, Nanos),
        priority: u32,
    ) -> Result<(), ScxError> {
        let serving = self.serving(cpu);
        let now = quell_linux::now();
        let goes_on =
            |server: &&ServerState| server.is_of(id) && (server.is_on() || server.next_period.load(Acquire) > now.0);
        let known = serving.server.iter().find(goes_on);
        let server = match known {
            Some(server) => {
                server.set(budget, period);
                server
            }
            None => {
                let free = serving.server.iter().find(|server| !server.is_on());
                let server = free.ok_or(ScxError::TooMany { what: "servers of one CPU", max: SERVERS })?;
                server.begin(budget, period, now);
                server.slot.store(id.0, Release);
                server
            }
        };
        server.priority.store(priority, Release);
        if server.on.swap(1, AcqRel) == 0 {
            self.workload(id)?.servers.fetch_add(1, SeqCst);
            let at = serving.server.iter().position(|other| std::ptr::eq(other, server)).unwrap_or(0);
            serving.servers.fetch_max(at as u32 + 1, SeqCst);
            self.shared().generation.fetch_add(1, SeqCst);
        }
        Ok(())
    }

    /// The workload has no server on this CPU any more; says whether there was one.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn take_server(&self, id: WorkloadId, cpu: CpuId) -> Result<bool, ScxError> {
        let servers = &self.serving(cpu).server;
        let Some(at) = servers.iter().position(|server| server.is_of(id) && server.is_on()) else { return Ok(false) };
        servers[at].on.store(0, Release);
        self.workload(id)?.servers.fetch_sub(1, SeqCst);
        self.shared().generation.fetch_add(1, SeqCst);
        self.shared().drain_server.store((cpu.index() * SERVERS + at) as u64, Release);
        self.call("drain_server", "emptying a server's queue")?;
        Ok(true)
    }

    /// Servers of the workload.
    pub(crate) fn servers_of(&self, id: WorkloadId) -> u32 {
        self.workload(id).map_or(0, |state| state.servers.load(Acquire))
    }

    /// Servers whose budgets were used up since `before`, by CPU and place: reported once.
    pub(crate) fn exhausted(&self, before: &mut Vec<[u64; SERVERS]>) -> Vec<Exhausted> {
        let mut found = Vec::new();
        if !self.has_servers() {
            return found;
        }
        for cpu in self.cpus() {
            let serving = self.serving(cpu);
            let count = serving.servers.load(Acquire) as usize;
            if count > 0 && before.len() <= cpu.index() {
                before.resize(cpu.index() + 1, [0; SERVERS]);
            }
            for (at, server) in serving.server.iter().enumerate().take(count) {
                let times = server.exhausted.load(Acquire);
                let periods = times - std::mem::replace(&mut before[cpu.index()][at], times).min(times);
                if periods > 0 {
                    let overrun = Nanos(server.overrun.swap(0, AcqRel));
                    let workload = WorkloadId(server.slot.load(Acquire));
                    found.push(Exhausted { workload, cpu, periods, overrun });
                }
            }
        }
        found
    }
}
