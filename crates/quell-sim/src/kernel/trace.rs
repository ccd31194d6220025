//! Who ran where and when, written down on request.

use quell_model::{CpuId, Nanos};

use super::{Kernel, TaskId};

/// A stretch of time in which one CPU ran one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Where.
    pub cpu: CpuId,
    /// Who.
    pub task: TaskId,
    /// Its start.
    pub from: Nanos,
    /// Its end.
    pub to: Nanos,
}

/// The stretches that have ended, and where each CPU's present one began.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    ended: Vec<Stretch>,
    began: Vec<u64>,
}

impl Trace {
    fn end(&mut self, cpu: usize, task: TaskId, now: u64) {
        let from = std::mem::replace(&mut self.began[cpu], now);
        if from == now {
            return;
        }
        let new = Stretch { cpu: CpuId(cpu as u32), task, from: Nanos(from), to: Nanos(now) };
        let last = self.ended.iter_mut().rev().find(|stretch| stretch.cpu == new.cpu);
        match last {
            Some(last) if last.task == task && last.to == new.from => last.to = new.to,
            _ => self.ended.push(new),
        }
    }
}

impl Kernel {
    /// From now on it is written down who runs where and when.
    pub fn begin_trace(&mut self) {
        self.trace = Some(Box::new(Trace { ended: Vec::new(), began: vec![self.now; self.cpus.len()] }));
    }

    /// What was written down up to now, by the stretches' ends; stretches without a break are one. The next ones are
    /// written down too. Empty where nothing was asked for.
    pub fn take_trace(&mut self) -> Vec<Stretch> {
        for cpu in 0..self.cpus.len() {
            if let Some(task) = self.cpus[cpu].current {
                self.trace_end(cpu, task);
            }
        }
        self.trace.as_mut().map(|trace| std::mem::take(&mut trace.ended)).unwrap_or_default()
    }

    pub(crate) fn trace_begin(&mut self, cpu: usize) {
        if let Some(trace) = &mut self.trace {
            trace.began[cpu] = self.now;
        }
    }

    pub(crate) fn trace_end(&mut self, cpu: usize, task: TaskId) {
        if let Some(trace) = &mut self.trace {
            trace.end(cpu, task, self.now);
        }
    }
}
