//! What runs, as far as caches and memory are concerned, and how fast that lets it be.

use super::Kernel;
use super::state::{ENDLESS, PhaseId, TaskId};

/// CPUs on which something else runs, or does something else, since somebody looked last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// Does anybody look?
    pub is_on: bool,
    pub cpus: Vec<usize>,
    /// References to memory take this many times longer than on idle memory; 0: that is not simulated.
    pub memory_slowdown: f64,
}

impl Changes {
    #[inline]
    pub fn note(&mut self, cpu: usize) {
        if self.is_on {
            self.cpus.push(cpu);
        }
    }
}

impl Kernel {
    /// The thread does something else from now on.
    pub(crate) fn set_phase(&mut self, task: TaskId, phase: PhaseId) {
        if self.task(task).phase == phase {
            return;
        }
        self.tasks[task.0 as usize].phase = phase;
        if self.is_running(task) {
            self.phases.note(self.task(task).cpu);
        }
    }

    /// What the CPU does.
    pub(crate) fn phase_on(&self, cpu: usize) -> PhaseId {
        self.cpus[cpu].current.map_or(PhaseId::default(), |task| self.task(task).phase)
    }

    /// The CPU runs at this speed from now on. The scheduler notices nothing: no time is accounted.
    pub(crate) fn set_pace(&mut self, cpu: usize, speed: u64) {
        let now = self.now;
        let seen = &mut self.cpus[cpu];
        if seen.speed == speed {
            return;
        }
        let from = seen.accounted.max(seen.progressed).max(seen.work_from);
        if let Some(task) = seen.current.filter(|_| !seen.away) {
            let running = &mut self.tasks[task.0 as usize];
            if running.left != ENDLESS && now > from {
                running.left = running.left.saturating_sub((now - from) * seen.speed);
            }
        }
        (seen.speed, seen.progressed) = (speed, now);
        self.set_stop(cpu);
        self.note(cpu);
    }
}
