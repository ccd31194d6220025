//! The simulation: one machine, one kernel, the workloads on it, and virtual time.

use quell_model::{CpuCount, CpuId, Nanos};

use crate::kernel::{Counters, GroupId, Kernel, KernelConfig, Timer};
use crate::workload::graph::{GraphSpec, Graphs, Plans};
use crate::workload::{Load, WorkloadSpec, WorkloadStats};
use crate::{Machine, SimError};

/// `cpu.max`'s usual period, ns.
pub(crate) const QUOTA_PERIOD: u64 = 100_000_000;

/// A machine with workloads, in virtual time.
#[derive(Clone, Debug)]
pub struct Sim {
    pub(crate) machine: Machine,
    pub(crate) kernel: Kernel,
    pub(crate) loads: Vec<Load>,
    graphs: Graphs,
    pub(crate) groups: Vec<GroupId>,
    /// By thread: its workload, and its place there.
    owners: Vec<(u32, u32)>,
    measured_from: u64,
    busy_before: u64,
    counted_before: Counters,
}

impl Sim {
    /// A machine on which these workloads begin at time 0.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if a workload makes no sense on this machine.
    pub fn new(
        machine: impl Into<Machine>,
        config: KernelConfig,
        workloads: &[WorkloadSpec],
        seed: u64,
    ) -> Result<Sim, SimError> {
        Sim::with_requests(machine, config, workloads, &GraphSpec::default(), seed)
    }

    /// The same, with requests that pass through the workloads' pools.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if a workload or a request makes no sense on this machine.
    pub fn with_requests(
        machine: impl Into<Machine>,
        config: KernelConfig,
        workloads: &[WorkloadSpec],
        requests: &GraphSpec,
        seed: u64,
    ) -> Result<Sim, SimError> {
        let machine = machine.into();
        for (at, spec) in workloads.iter().enumerate() {
            spec.check(&machine.topology.all()).map_err(SimError::Scenario)?;
            if workloads[..at].iter().any(|other| other.name == spec.name) {
                return Err(SimError::Scenario(format!("two workloads are named '{}': rename one", spec.name)));
            }
        }
        let plans = Plans::new(requests, workloads).map_err(SimError::Scenario)?;
        let mut sim = Sim {
            kernel: Kernel::new(machine.topology.clone(), config),
            machine,
            loads: Vec::new(),
            graphs: Graphs::default(),
            groups: Vec::new(),
            owners: Vec::new(),
            measured_from: 0,
            busy_before: 0,
            counted_before: Counters::default(),
        };
        for (number, spec) in workloads.iter().enumerate() {
            sim.add(number, spec, seed);
        }
        sim.graphs = Graphs::new(plans, seed, &sim.loads, &mut sim.kernel);
        Ok(sim)
    }

    fn add(&mut self, number: usize, spec: &WorkloadSpec, seed: u64) {
        let kernel = &mut self.kernel;
        let group = kernel.add_group(GroupId::ROOT, spec.weight);
        kernel.set_cpus(group, spec.cpuset.map(|list| list.0));
        kernel.set_idle(group, spec.idle);
        kernel.set_quota(group, spec.quota.map(quota));
        let mut tasks = Vec::new();
        for thread in 0..spec.threads {
            let task = kernel.spawn(group, number as u32, spec.scheduling);
            if let Some(list) = spec.affinity.get(thread as usize % spec.affinity.len().max(1)) {
                kernel.set_affinity(task, Some(list.0));
            }
            self.owners.push((number as u32, thread));
            tasks.push(task);
        }
        self.groups.push(group);
        self.loads.push(Load::new(spec, number as u64, seed, tasks, kernel));
    }

    /// The workloads begin. Called once, before time passes.
    pub fn begin(&mut self) {
        for load in &mut self.loads {
            load.start(&mut self.kernel);
        }
        self.graphs.start(&mut self.kernel);
        self.settle();
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos(self.kernel.now)
    }

    /// The kernel, to look at.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// A CPU's highest frequency from now on. Speed follows frequency; a CPU's power states are not modelled.
    pub fn set_frequency(&mut self, cpu: CpuId, khz: u32) {
        let highest = self.machine.frequencies.max_khz;
        let per_mille = u64::from(khz.min(highest)) * 1000 / u64::from(highest.max(1));
        self.kernel.set_speed(cpu, per_mille as u32);
    }

    /// Lets time pass until then.
    pub fn run_until(&mut self, until: Nanos) {
        while self.step(until) {}
        self.kernel.now = self.kernel.now.max(until.0);
    }

    /// Lets time pass until then, or until something happened that a policy may want to hear of.
    pub(crate) fn run_until_event(&mut self, until: Nanos) {
        while self.kernel.happened.is_empty() {
            if !self.step(until) {
                self.kernel.now = self.kernel.now.max(until.0);
                return;
            }
        }
    }

    /// Handles the next thing that is due by then; false: there is none.
    fn step(&mut self, until: Nanos) -> bool {
        let Some((at, timer)) = self.kernel.timers.pop(until.0) else { return false };
        let kernel = &mut self.kernel;
        kernel.now = at;
        match timer {
            Timer::Stop(cpu) => {
                if let Some(task) = kernel.stop(cpu as usize) {
                    let (workload, thread) = self.owners[task.0 as usize];
                    let load = &mut self.loads[workload as usize];
                    if load.serves_stages() {
                        self.graphs.finished(kernel, &mut self.loads, workload as usize, thread as usize);
                    } else {
                        load.finished(kernel, thread as usize);
                    }
                }
            }
            Timer::Tick(cpu) => kernel.tick(cpu as usize),
            Timer::Period(group) => kernel.refill(group),
            Timer::Slack(group) => kernel.hand_out_slack(group),
            Timer::Replenish(task) => kernel.replenish(crate::TaskId(task)),
            Timer::FairServer(cpu) => kernel.serve_fair(cpu as usize),
            Timer::Workload(number) => self.loads[number as usize].due(kernel),
            Timer::Request(kind) => self.graphs.due(kernel, &mut self.loads, kind as usize),
            Timer::Task(task) => {
                let (workload, thread) = self.owners[task as usize];
                self.loads[workload as usize].release(kernel, thread as usize);
            }
        }
        self.settle();
        true
    }

    /// Lets every CPU pick that has to; workloads hear from whom a granted CPU was taken.
    #[inline]
    pub(crate) fn settle(&mut self) {
        self.kernel.settle();
        while let Some(task) = self.kernel.preempted.pop() {
            let (workload, thread) = self.owners[task.0 as usize];
            self.loads[workload as usize].preempted(&mut self.kernel, thread as usize);
            self.kernel.settle();
        }
    }

    /// A workload was granted a CPU. To be called before the CPU picks.
    pub(crate) fn granted(&mut self, workload: usize, cpu: CpuId) {
        self.loads[workload].granted(&mut self.kernel, cpu.index());
    }

    /// How long a workload's oldest request has waited for a thread, or its oldest runnable thread for a CPU.
    pub(crate) fn queueing_delay(&self, workload: usize) -> Nanos {
        let waits = self.loads[workload].queueing_delay(&self.kernel, workload);
        let stages = self.graphs.oldest_waiting(workload, &self.kernel).map_or(0, |since| self.kernel.now - since);
        Nanos(waits.max(stages))
    }

    /// What is counted is counted from now on.
    pub fn end_warm_up(&mut self) {
        for load in &mut self.loads {
            load.forget(&self.kernel);
        }
        self.measured_from = self.kernel.now;
        self.busy_before = self.kernel.busy_time();
        self.counted_before = self.kernel.counters;
    }

    /// What each workload achieved since the warm-up.
    #[must_use]
    pub fn stats(&self) -> Vec<WorkloadStats> {
        self.loads.iter().map(|load| load.stats(&self.kernel)).collect()
    }

    /// CPU time that each workload has used since time 0, ns.
    pub(crate) fn run_times(&self) -> Vec<u64> {
        self.loads.iter().map(|load| load.run_time(&self.kernel)).collect()
    }

    /// The time since the warm-up.
    #[must_use]
    pub fn measured(&self) -> Nanos {
        Nanos(self.kernel.now - self.measured_from)
    }

    /// The part of all CPUs' time since the warm-up in which they were busy, 0–1.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let all = self.measured().0 as f64 * self.kernel.cpus.len() as f64;
        if all == 0.0 { 0.0 } else { (self.kernel.busy_time() - self.busy_before) as f64 / all }
    }

    /// What the kernel has done since the warm-up.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let (now, before) = (self.kernel.counters, self.counted_before);
        Counters {
            events: now.events - before.events,
            wake_ups: now.wake_ups - before.wake_ups,
            switches: now.switches - before.switches,
            migrations: now.migrations - before.migrations,
            balanced: now.balanced - before.balanced,
        }
    }
}

/// A quota in CPUs as the kernel has it: time, period and burst, ns.
pub(crate) fn quota(cpus: CpuCount) -> (u64, u64, u64) {
    (cpus.of(Nanos(QUOTA_PERIOD)).0, QUOTA_PERIOD, 0)
}
