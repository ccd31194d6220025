//! Workloads have slots: they are attached, described and detached.

use std::io;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use libbpf_rs::{MapCore, MapFlags};
use quell_model::{CpuSet, GraceSignal, Workload, WorkloadId};

use crate::layout::{MAX_SLOTS, WorkloadState};
use crate::program::{Grant, broken};
use crate::{ScxError, sockets};

/// What starting a queue answers without a scheduler.
const NO_SCHEDULER: i32 = -libc::ENODEV;

impl Grant {
    pub(crate) fn workload(&self, id: WorkloadId) -> Result<&WorkloadState, ScxError> {
        self.shared().workload[..MAX_SLOTS]
            .get(id.index())
            .ok_or(ScxError::TooMany { what: "workloads", max: MAX_SLOTS })
    }

    /// From now on the threads of these cgroups (by inode), children's included, are this workload's. It has no rights
    /// and holds no CPU.
    ///
    /// # Errors
    /// If a table is full.
    pub fn attach(&mut self, id: WorkloadId, spec: &Workload, cgroups: &[u64]) -> Result<(), ScxError> {
        self.begin_slot(id)?;
        let state = self.workload(id)?;
        state.lc.store(spec.is_lc().into(), Relaxed);
        state.limit.store(u32::MAX, Relaxed);
        state.rank.store(u32::MAX, Relaxed);
        for off in [&state.guaranteed, &state.burst, &state.on_wake_up, &state.in_line, &state.servers] {
            off.store(0, Relaxed);
        }
        sockets::forget(state);
        self.describe(id, spec)?;
        state.attached.store(1, Relaxed);
        self.outside_the_line.insert(id);
        self.shared().nr_slots.fetch_max(id.0 + 1, SeqCst);
        self.change_cgroups(id, &[], cgroups)
    }

    /// The slot's queues are there from now on.
    fn begin_slot(&self, id: WorkloadId) -> Result<(), ScxError> {
        self.workload(id)?;
        self.shared().begins.store(id.0.into(), Release);
        match self.kernel.call("begin_slot").map_err(broken("making a workload's queues"))? {
            // Without a scheduler there are none: that it has ended shows elsewhere.
            0 | NO_SCHEDULER => Ok(()),
            error => Err(ScxError::Queues { error: io::Error::from_raw_os_error(-error) }),
        }
    }

    /// What of a workload's description may change while it is attached.
    ///
    /// # Errors
    /// If there are too many workloads.
    pub fn describe(&self, id: WorkloadId, spec: &Workload) -> Result<(), ScxError> {
        let state = self.workload(id)?;
        let signal = spec.grace.map_or(0, |grace| match grace.signal {
            GraceSignal::Usr1 => libc::SIGUSR1,
            GraceSignal::Usr2 => libc::SIGUSR2,
            GraceSignal::Urg => libc::SIGURG,
        });
        state.grace_signal.store(signal as u32, Relaxed);
        state.grace_ns.store(spec.grace.map_or(0, |grace| grace.time.0), Release);
        Ok(())
    }

    /// The workload has other cgroups from now on; it keeps what it holds.
    ///
    /// # Errors
    /// If a table is full.
    pub fn change_cgroups(&mut self, id: WorkloadId, before: &[u64], now: &[u64]) -> Result<(), ScxError> {
        let table = &self.cgroups;
        for gone in before.iter().filter(|cgroup| !now.contains(cgroup)) {
            match table.delete(&gone.to_ne_bytes()) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                    return Err(broken("removing a cgroup from the scheduler's table")(error));
                }
                _ => {}
            }
        }
        for cgroup in now {
            table
                .update(&cgroup.to_ne_bytes(), &id.0.to_ne_bytes(), MapFlags::ANY)
                .map_err(broken("adding a cgroup to the scheduler's table"))?;
        }
        self.shared().generation.fetch_add(1, SeqCst);
        Ok(())
    }

    /// From now on the threads of the workload belong to the system. It loses its CPUs.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn detach(&mut self, id: WorkloadId, cgroups: &[u64]) -> Result<(), ScxError> {
        self.part(id)?;
        self.change_cgroups(id, cgroups, &[])?;
        let state = self.workload(id)?;
        for off in [&state.attached, &state.guaranteed, &state.burst, &state.on_wake_up, &state.in_line] {
            off.store(0, Relaxed);
        }
        self.outside_the_line.remove(id);
        let freed = self.take_all(id);
        self.drain(id)?;
        self.kick(&freed)
    }

    /// It loses its CPUs.
    pub(crate) fn take_all(&mut self, id: WorkloadId) -> CpuSet {
        let mut freed = CpuSet::EMPTY;
        for cpu in self.cpus() {
            // It may lose it by itself meanwhile.
            let holder = self.holder(cpu);
            if holder.workload() == Some(id) && self.hand_on(cpu, holder, None).is_some() {
                freed.insert(cpu);
            }
        }
        freed
    }

    /// Its threads that wait go to where they belong now.
    pub(crate) fn drain(&self, id: WorkloadId) -> Result<(), ScxError> {
        self.shared().drain.store(id.0.into(), Release);
        self.call("drain_queue", "emptying a workload's queue")
    }

    /// A CPU that is yielded goes to the attached workload by itself, in the order of the ranks.
    pub(crate) fn put_in_line(&mut self, id: WorkloadId, rank: u32) -> Result<(), ScxError> {
        let state = self.workload(id)?;
        state.rank.store(rank, Release);
        state.in_line.store(1, Release);
        self.outside_the_line.remove(id);
        Ok(())
    }

    /// It does not any more.
    pub(crate) fn take_from_line(&mut self, id: WorkloadId) -> Result<(), ScxError> {
        self.workload(id)?.in_line.store(0, Release);
        self.outside_the_line.insert(id);
        Ok(())
    }
}
