//! Workloads that hold CPUs as one, and what their threads are given.

use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use quell_model::{CpuSet, Nanos, QueueOrder, WorkloadId};

use crate::layout::{BY_PROGRESS, BY_WEIGHT, MAX_SETTINGS, MAX_SLOTS};
use crate::{Grant, ScxError};

/// What a thread is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadSetting {
    /// Its number.
    pub tid: i32,
    /// Its weight; 100 is a thread's at nice 0. 0: as it is.
    pub weight: u32,
    /// Its wake-up latency; zero: as it is.
    pub latency: Nanos,
}

impl ThreadSetting {
    /// The wake-up latency of threads that have none of their own.
    pub const COMMON_LATENCY: Nanos = Nanos::MAX;
}

impl Grant {
    /// Was it loaded so that workloads can hold CPUs as one?
    #[must_use]
    pub fn can_hold_as_one(&self) -> bool {
        self.parts.together
    }

    /// With whom the workload holds CPUs as one; itself if it leads.
    #[must_use]
    pub fn leader_of(&self, id: WorkloadId) -> Option<WorkloadId> {
        let state = self.workload(id).ok()?;
        match state.leader.load(Acquire) {
            0 => (state.leads.load(Acquire) != 0).then_some(id),
            leader => Some(WorkloadId(leader - 1)),
        }
    }

    /// From now on the workload's threads share the CPUs of the leader, in this order; itself: it leads. It has no rights and
    /// holds no CPUs of its own.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn join(&mut self, id: WorkloadId, leader: WorkloadId, order: QueueOrder) -> Result<(), ScxError> {
        let leads = match order {
            QueueOrder::Weight => BY_WEIGHT,
            QueueOrder::Progress => BY_PROGRESS,
        };
        if self.leader_of(id) == Some(leader) {
            if self.workload(leader)?.leads.swap(leads, SeqCst) != leads {
                self.look_anew(leader)?;
            }
            return Ok(());
        }
        self.part(id)?;
        self.workload(leader)?.leads.store(leads, Release);
        let mut freed = CpuSet::EMPTY;
        if id != leader {
            let state = self.workload(id)?;
            state.leader.store(leader.0 + 1, Release);
            for off in [&state.guaranteed, &state.burst, &state.on_wake_up] {
                off.store(0, Release);
            }
            // Nor is it one that the loop has to give CPUs to.
            self.take_from_line(id)?;
            self.outside_the_line.remove(id);
            freed = self.take_all(id);
        }
        self.look_anew(id)?;
        self.kick(&freed)
    }

    /// The workload, and those that it led, hold CPUs alone again.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn part(&mut self, id: WorkloadId) -> Result<(), ScxError> {
        let Some(leader) = self.leader_of(id) else { return Ok(()) };
        if leader == id {
            for other in (0..MAX_SLOTS as u32).map(WorkloadId) {
                let leader = &self.workload(other)?.leader;
                if leader.compare_exchange(id.0 + 1, 0, SeqCst, SeqCst).is_ok() {
                    self.outside_the_line.insert(other);
                }
            }
        } else {
            self.outside_the_line.insert(id);
        }
        let state = self.workload(id)?;
        state.leader.store(0, Release);
        state.leads.store(0, Release);
        self.look_anew(leader)
    }

    /// Every thread looks up whose it is, those in this workload's queues at once.
    fn look_anew(&self, id: WorkloadId) -> Result<(), ScxError> {
        self.shared().generation.fetch_add(1, SeqCst);
        self.drain(id)
    }

    /// Gives these threads weights and latencies: they count while their workload holds CPUs as one with others.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_threads(&self, settings: &[ThreadSetting]) -> Result<(), ScxError> {
        for some in settings.chunks(MAX_SETTINGS) {
            for (place, setting) in self.shared().setting.iter().zip(some) {
                place.tid.store(setting.tid as u32, Release);
                place.weight.store(setting.weight, Release);
                place.latency.store(setting.latency.0, Release);
            }
            self.shared().nr_settings.store(some.len() as u32, Release);
            self.call("set_threads", "giving threads weights")?;
        }
        Ok(())
    }
}
