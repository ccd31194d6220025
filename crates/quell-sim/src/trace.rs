//! Who ran where and when, written down on request.

use quell_model::{CpuId, Nanos};

use crate::ids::TaskId;

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
    /// It begins now, on this many CPUs.
    pub fn new(cpus: usize, now: u64) -> Trace {
        Trace { ended: Vec::new(), began: vec![now; cpus] }
    }

    /// A thread begins to run.
    pub fn begin(&mut self, cpu: usize, now: u64) {
        self.began[cpu] = now;
    }

    /// The stretches that have ended since the last call.
    pub fn take(&mut self) -> Vec<Stretch> {
        std::mem::take(&mut self.ended)
    }

    /// A thread stops running, or is looked at.
    pub fn end(&mut self, cpu: usize, task: TaskId, now: u64) {
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
