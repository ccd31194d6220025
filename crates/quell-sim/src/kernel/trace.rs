//! Who ran where and when, written down on request.

use super::{Kernel, TaskId};
use crate::trace::{Stretch, Trace};

impl Kernel {
    /// From now on it is written down who runs where and when.
    pub fn begin_trace(&mut self) {
        self.reports.trace = Some(Box::new(Trace::new(self.cpus.len(), self.now)));
    }

    /// What was written down up to now, by the stretches' ends; stretches without a break are one. The next ones are
    /// written down too. Empty where nothing was asked for.
    pub fn take_trace(&mut self) -> Vec<Stretch> {
        for cpu in 0..self.cpus.len() {
            if let Some(task) = self.cpus[cpu].current {
                self.trace_end(cpu, task);
            }
        }
        self.reports.trace.as_mut().map(|trace| trace.take()).unwrap_or_default()
    }

    pub(crate) fn trace_begin(&mut self, cpu: usize) {
        if let Some(trace) = &mut self.reports.trace {
            trace.begin(cpu, self.now);
        }
    }

    pub(crate) fn trace_end(&mut self, cpu: usize, task: TaskId) {
        if let Some(trace) = &mut self.reports.trace {
            trace.end(cpu, task, self.now);
        }
    }
}
