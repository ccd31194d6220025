//! Jobs whose threads meet at barriers.

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::kernel::{Kernel, TaskId};
use crate::service::Service;
use crate::workload::load::Common;

/// A job of several rounds: in each, every thread does a piece of work and waits for the others. Job follows job; a
/// job's time is its latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParallelSpec {
    /// Rounds of a job.
    pub rounds: u32,
    /// CPU time of one thread's piece.
    pub work: Service,
    /// CPU time after each round of the thread that came last, while the others wait: a serial part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<Service>,
    /// A thread that waits spins for this long, CPU time, before it sleeps.
    #[serde(default, skip_serializing_if = "crate::config::is_zero")]
    pub spin: Nanos,
}

impl ParallelSpec {
    /// Without a serial part; a thread that waits sleeps.
    #[must_use]
    pub fn new(rounds: u32, work: Service) -> ParallelSpec {
        ParallelSpec { rounds, work, serial: None, spin: Nanos(0) }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        self.work.check()?;
        self.serial.iter().try_for_each(Service::check)?;
        if self.rounds == 0 {
            return Err("a job of no rounds: give it at least one".into());
        }
        Ok(())
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Its piece, or the serial part.
    Works,
    /// Waits at the barrier on its CPU.
    Spins,
    /// Waits at the barrier, asleep.
    Sleeps,
}

/// A parallel job under way.
#[derive(Clone, Debug)]
pub(crate) struct Parallel {
    spec: ParallelSpec,
    doing: Vec<Doing>,
    /// The serial part is under way.
    is_serial: bool,
    round: u32,
    at_barrier: usize,
    began: u64,
}

impl Parallel {
    pub fn new(spec: &ParallelSpec, threads: usize, began: u64) -> Parallel {
        let doing = vec![Doing::Sleeps; threads];
        Parallel { spec: spec.clone(), doing, is_serial: false, round: 0, at_barrier: 0, began }
    }

    pub fn start(&mut self, own: &mut Common, kernel: &mut Kernel) {
        self.begin_round(own, kernel, None);
    }

    /// A thread has reached the barrier, has spun for long enough, or has done the serial part.
    pub fn finished(&mut self, own: &mut Common, kernel: &mut Kernel, thread: usize) {
        let task = own.tasks[thread];
        self.doing.resize(own.tasks.len(), Doing::Sleeps);
        if self.doing[thread] == Doing::Spins {
            self.doing[thread] = Doing::Sleeps;
            return kernel.block(task);
        }
        if !std::mem::take(&mut self.is_serial) {
            self.at_barrier += 1;
            if self.at_barrier < own.tasks.len() {
                return self.wait(kernel, task, thread);
            }
            self.at_barrier = 0;
            if let Some(serial) = &self.spec.serial {
                self.is_serial = true;
                let work = serial.draw(&mut own.streams.services);
                return kernel.continue_with(task, work);
            }
        }
        self.end_round(own, kernel);
        self.doing[thread] = Doing::Sleeps;
        kernel.block(task);
        self.begin_round(own, kernel, Some(task));
    }

    fn wait(&mut self, kernel: &mut Kernel, task: TaskId, thread: usize) {
        if self.spec.spin == Nanos(0) {
            self.doing[thread] = Doing::Sleeps;
            return kernel.block(task);
        }
        self.doing[thread] = Doing::Spins;
        kernel.continue_with(task, self.spec.spin.0);
    }

    fn end_round(&mut self, own: &mut Common, kernel: &Kernel) {
        self.round += 1;
        if self.round == self.spec.rounds {
            let now = kernel.now();
            let latency = now - std::mem::replace(&mut self.began, now);
            self.round = 0;
            own.stats.arrived += 1;
            own.record(latency);
        }
    }

    /// The last thread at the barrier wakes those that sleep; those that spin see it.
    fn begin_round(&mut self, own: &mut Common, kernel: &mut Kernel, waker: Option<TaskId>) {
        let from = waker.and_then(|waker| kernel.last_cpu(waker));
        self.doing.resize(own.tasks.len(), Doing::Sleeps);
        for (doing, &task) in self.doing.iter_mut().zip(&own.tasks) {
            let work = self.spec.work.draw(&mut own.streams.services);
            match (std::mem::replace(doing, Doing::Works), waker) {
                (Doing::Spins, _) => kernel.continue_with(task, work),
                (_, Some(waker)) => kernel.wake_by_from(task, work, waker, from),
                (_, None) => kernel.wake(task, work, None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quell_model::{Class, Topology};

    use super::*;
    use crate::{Costs, KernelConfig, Sim, WorkloadSpec};

    const MS: Nanos = Nanos::from_millis(1);

    /// Four threads on four CPUs, jobs of ten rounds of 1 ms a thread: a job's mean time, and the CPU time and wake-ups of
    /// 100 ms.
    fn run(of: impl Fn(&mut ParallelSpec)) -> (u64, u64, u64) {
        let mut parallel = ParallelSpec::new(10, Service::Constant(MS));
        of(&mut parallel);
        let parallel = Some(parallel);
        let spec = WorkloadSpec { threads: 4, parallel, ..WorkloadSpec::new("jobs", Class::BestEffort) };
        let config = KernelConfig { costs: Costs::FREE, ..KernelConfig::default() };
        let mut sim = Sim::new(Topology::synthetic(1, 1, 4, 1), config, &[spec], 3).unwrap();
        sim.begin();
        sim.run_until(Nanos::from_millis(100));
        let stats = sim.stats().swap_remove(0);
        (stats.latencies.mean().0, stats.run_time, sim.counters().switches)
    }

    #[test]
    fn a_serial_part_leaves_the_other_threads_waiting() {
        let (plain, busy, _) = run(|_| {});
        assert_eq!((plain / 10_000, busy / 1_000_000), (1_000, 400));
        let (serial, busy, _) = run(|parallel| parallel.serial = Some(Service::Constant(MS)));
        assert_eq!(serial / 10_000, 2_000, "half of the time one thread works alone");
        assert_eq!(busy / 1_000_000, 250);
    }

    #[test]
    fn a_thread_that_waits_spins_and_then_sleeps() {
        let uneven = |parallel: &mut ParallelSpec| {
            parallel.work = Service::Uniform { from: Nanos(MS.0 / 2), to: MS };
        };
        let (_, sleeping, switches) = run(uneven);
        let (_, spinning, none) = run(|parallel| {
            uneven(parallel);
            parallel.spin = MS;
        });
        assert_eq!(spinning / 1_000_000, 400, "it has its CPU all the time");
        assert!(sleeping < 350_000_000 && none * 10 < switches, "{sleeping}, switches {none} and {switches}");
        let (_, shortly, some) = run(|parallel| {
            uneven(parallel);
            parallel.spin = Nanos::from_micros(50);
        });
        assert!(shortly > sleeping && shortly < spinning && some > none, "{shortly}");
    }
}
