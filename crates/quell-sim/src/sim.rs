//! The simulation: one machine, its kernel and those of its VMs, the workloads on them, and virtual time.

mod change;

use quell_model::{CpuCount, CpuId, Nanos};

use crate::contention::solve::Rates;
use crate::contention::{Contention, Phases};
use crate::gpu::Gpu;
use crate::kernel::{Counters, GroupId, Kernel, KernelConfig, Stretch, TaskId, Timer};
use crate::vm::{Guest, Vm, VmSpec};
use crate::workload::graph::{GraphSpec, Graphs, Plans};
use crate::workload::{Done, GroupSpec, Load, PhaseSet, WorkloadSpec, WorkloadStats};
use crate::{Machine, SimError};

/// What is on a machine.
#[derive(Clone, Copy, Debug)]
pub struct Population<'a> {
    /// What runs, on the host or in one of the VMs.
    pub workloads: &'a [WorkloadSpec],
    /// VMs. Policies know them as workloads, whose threads are vCPUs, and not what runs in them.
    pub vms: &'a [VmSpec],
    /// Requests that pass through the workloads' pools.
    pub requests: &'a GraphSpec,
}

static NO_REQUESTS: GraphSpec = GraphSpec::NONE;

impl<'a> From<&'a [WorkloadSpec]> for Population<'a> {
    fn from(workloads: &'a [WorkloadSpec]) -> Population<'a> {
        Population { workloads, vms: &[], requests: &NO_REQUESTS }
    }
}

impl<'a> From<&'a Vec<WorkloadSpec>> for Population<'a> {
    fn from(workloads: &'a Vec<WorkloadSpec>) -> Population<'a> {
        Population::from(&workloads[..])
    }
}

impl<'a, const N: usize> From<&'a [WorkloadSpec; N]> for Population<'a> {
    fn from(workloads: &'a [WorkloadSpec; N]) -> Population<'a> {
        Population::from(&workloads[..])
    }
}

/// A machine with workloads, in virtual time.
#[derive(Clone, Debug)]
pub struct Sim {
    pub(crate) machine: Machine,
    pub(crate) kernel: Kernel,
    pub(crate) loads: Vec<Load>,
    /// By workload: the VM that it runs in.
    pub(crate) homes: Vec<Option<usize>>,
    pub(crate) vms: Vec<Vm>,
    /// What the host knows as workloads: the VMs, then what runs on it directly.
    pub(crate) tenants: Vec<Tenant>,
    /// By CPU: the vCPU that runs there.
    pub(crate) guests: Vec<Option<Guest>>,
    /// By thread of the host.
    pub(crate) owners: Vec<Owner>,
    pub(crate) graphs: Graphs,
    /// What threads do to each other's speed, if they do.
    pub(crate) contention: Option<Box<Contention>>,
    pub(crate) seed: u64,
    pub(crate) before: Before,
}

/// What was counted when the warm-up ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    from: u64,
    busy: u64,
    done: Counters,
    counted: Vec<Rates>,
    pub bytes: f64,
}

/// Whom a thread works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A workload, and the thread's place there.
    Thread { load: u32, thread: u32 },
    /// A VM, and the vCPU's number.
    Vcpu { vm: u32, cpu: u32 },
}

/// What the host knows as a workload.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub group: GroupId,
    pub tasks: Vec<TaskId>,
    /// Threads that have ended.
    pub ended: Vec<TaskId>,
    /// Its number among the workloads; None: it is a VM, or gone.
    pub load: Option<usize>,
}

impl Sim {
    /// A machine on which these workloads begin at time 0.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if a workload, VM or request makes no sense on this machine.
    pub fn new<'a>(
        machine: impl Into<Machine>,
        config: KernelConfig,
        population: impl Into<Population<'a>>,
        seed: u64,
    ) -> Result<Sim, SimError> {
        let machine = machine.into();
        let Population { workloads, vms, requests } = population.into();
        let homes = crate::vm::homes(&machine.topology.all(), workloads, vms).map_err(SimError::Scenario)?;
        let mut plans = Plans::new(requests, workloads).map_err(SimError::Scenario)?;
        let mut phases = Phases::new(machine.socket(), machine.contention.on);
        let mut sim = Sim {
            kernel: Kernel::new(machine.topology.clone(), config),
            loads: Vec::new(),
            vms: Vec::new(),
            graphs: Graphs::default(),
            contention: None,
            tenants: Vec::new(),
            guests: vec![None; machine.topology.columns()],
            owners: Vec::new(),
            seed,
            before: Before::default(),
            homes,
            machine,
        };
        sim.kernel.set_seed(seed, 0);
        for (number, spec) in vms.iter().enumerate() {
            sim.add_vm(number, spec, seed);
        }
        let mut around = vec![Vec::new(); 1 + vms.len()];
        for (number, spec) in workloads.iter().enumerate() {
            let home = sim.homes[number];
            let kernel = home.map_or(&mut sim.kernel, |vm| &mut sim.vms[vm].guest);
            let parent = group_around(spec, kernel, &mut around[home.map_or(0, |vm| vm + 1)])?;
            let own = PhaseSet::new(spec, number, home.unwrap_or(sim.tenants.len()), &mut phases)
                .map_err(SimError::Scenario)?;
            sim.add(number, spec, parent, own, sim.tenants.len());
        }
        crate::gpu::check(plans.stage_on_gpu(), sim.machine.gpu.is_some()).map_err(SimError::Scenario)?;
        plans.set_phases(&sim.loads, &sim.tenants, &sim.homes, &mut phases).map_err(SimError::Scenario)?;
        sim.graphs = Graphs::new(plans, seed, &sim.loads, |workload, timer| match sim.homes[workload] {
            None => sim.kernel.timers.add(timer),
            Some(vm) => sim.vms[vm].guest.timers.add(timer),
        });
        sim.graphs.gpu = sim.machine.gpu.map(|_| Gpu::new(&mut sim.kernel.timers));
        if !phases.is_empty() {
            let ways = |tenant: &Tenant| tenant.load.and_then(|load| workloads[load].cache_ways).unwrap_or(u32::MAX);
            let ways = sim.tenants.iter().map(ways).collect();
            sim.contend(phases, ways);
        }
        Ok(sim)
    }

    /// Workload `number` is there, and sleeps. The host, where it runs there, knows it as this tenant.
    fn add(&mut self, number: usize, spec: &WorkloadSpec, parent: GroupId, phases: PhaseSet, tenant: usize) {
        let home = self.homes[number];
        let (kernel, owners) = match home.map(|vm| &mut self.vms[vm]) {
            None => (&mut self.kernel, &mut self.owners),
            Some(vm) => (&mut vm.guest, &mut vm.owners),
        };
        let group = kernel.add_group(parent, spec.weight);
        kernel.set_cpus(group, spec.cpuset.map(|list| list.0));
        kernel.set_partition(group, spec.partition);
        kernel.set_idle(group, spec.idle);
        kernel.set_quota(group, tighter(spec.quota, spec.limit).map(|cpus| quota(cpus, spec.quota_period)));
        let mut tasks = Vec::new();
        for (thread, like) in (0..).zip(spec.simulated_threads()) {
            let task = kernel.spawn(group, tenant as u32, spec.class_of(like));
            if let Some(list) = spec.affinity.get(like as usize % spec.affinity.len().max(1)) {
                kernel.set_affinity(task, Some(list.0));
            }
            owners.push(Owner::Thread { load: number as u32, thread });
            tasks.push(task);
        }
        if home.is_none() {
            let here = Tenant { group, tasks: tasks.clone(), ended: Vec::new(), load: Some(number) };
            if tenant == self.tenants.len() { self.tenants.push(here) } else { self.tenants[tenant] = here }
        }
        self.loads.push(Load::new(spec, number as u64, self.seed, tasks, phases, kernel));
    }

    /// The workloads begin. Called once, before time passes.
    pub fn begin(&mut self) {
        for (load, home) in self.loads.iter_mut().zip(&self.homes) {
            load.start(match home {
                None => &mut self.kernel,
                Some(vm) => &mut self.vms[*vm].guest,
            });
        }
        for (kind, receiver) in self.graphs.receivers().into_iter().enumerate() {
            self.graphs.start(
                kind,
                match self.homes[receiver] {
                    None => &mut self.kernel,
                    Some(vm) => &mut self.vms[vm].guest,
                },
            );
        }
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

    /// A VM's kernel, to look at.
    #[must_use]
    pub fn guest(&self, vm: usize) -> Option<&Kernel> {
        self.vms.get(vm).map(|vm| &vm.guest)
    }

    /// From now on it is written down who runs where and when.
    pub fn begin_trace(&mut self) {
        self.kernel.begin_trace();
    }

    /// Who ran where and when since [`Sim::begin_trace`] or the last call, by the stretches' ends.
    pub fn take_trace(&mut self) -> Vec<Stretch> {
        self.kernel.take_trace()
    }

    /// From now on the jobs of job servers, and requests of graphs, are written down one by one.
    pub fn begin_log(&mut self) {
        self.loads.iter_mut().for_each(Load::begin_log);
    }

    /// The jobs of a workload that were written down, in the order in which they were done.
    #[must_use]
    pub fn log(&self, workload: usize) -> &[Done] {
        self.loads.get(workload).map_or(&[], Load::log)
    }

    /// The requests of graphs that begin on a workload and were written down: arrival and latency, in the order of answers.
    #[must_use]
    pub fn answered(&self, workload: usize) -> &[(Nanos, Nanos)] {
        self.loads.get(workload).and_then(|load| load.common.answered.as_deref()).unwrap_or_default()
    }

    /// The GPU's highest frequency as set, kHz; None: none was set.
    #[must_use]
    pub fn gpu_khz(&self) -> Option<u32> {
        self.contention.as_ref()?.settings.gpu_khz()
    }

    /// Time in which the GPU ran something, ns.
    #[must_use]
    pub fn gpu_busy(&self) -> u64 {
        self.graphs.gpu.as_ref().map_or(0, |gpu| gpu.busy(self.kernel.now))
    }

    /// Lets time pass until then.
    pub fn run_until(&mut self, until: Nanos) {
        while self.step(until) {}
        self.set_time(until);
    }

    /// Lets time pass until then, or until something happened that a policy may act on.
    pub(crate) fn run_until_event(&mut self, until: Nanos) {
        while self.kernel.reports.happened.is_empty() {
            if !self.step(until) {
                return self.set_time(until);
            }
        }
    }

    fn set_time(&mut self, now: Nanos) {
        self.kernel.now = self.kernel.now.max(now.0);
        for vm in &mut self.vms {
            vm.guest.now = self.kernel.now;
        }
    }

    /// Handles the next thing that is due by then; false: there is none.
    fn step(&mut self, until: Nanos) -> bool {
        if !self.vms.is_empty() {
            return self.step_levels(until);
        }
        let Some((at, timer)) = self.kernel.timers.pop(until.0) else { return false };
        self.kernel.now = at;
        match timer {
            Timer::Cache(_) | Timer::Settings => self.expire_contention(timer),
            _ => {
                handle(&mut self.kernel, &mut self.loads, &mut self.graphs, &self.owners, timer);
            }
        }
        self.settle();
        true
    }

    /// Lets every CPU of the host and of all guests pick that has to; speeds follow.
    #[inline]
    pub(crate) fn settle(&mut self) {
        self.settle_host();
        if !self.vms.is_empty() {
            self.settle_levels();
        }
        if self.contention.is_some() {
            self.follow_contention();
        }
    }

    /// Lets every CPU of the host pick that has to; workloads learn which threads lost a granted CPU.
    #[inline]
    pub(crate) fn settle_host(&mut self) {
        self.kernel.settle();
        if !self.kernel.reports.preempted.is_empty() {
            self.tell_preempted();
        }
    }

    fn tell_preempted(&mut self) {
        while let Some(task) = self.kernel.reports.preempted.pop() {
            if let Owner::Thread { load, thread } = self.owners[task.0 as usize] {
                self.loads[load as usize].preempted(&mut self.kernel, thread as usize);
                self.kernel.settle();
            }
        }
    }

    /// The workload with this number at the host was granted a CPU. To be called before the CPU picks.
    pub(crate) fn granted(&mut self, tenant: usize, cpu: CpuId) {
        if let Some(load) = self.tenants[tenant].load {
            self.loads[load].granted(&mut self.kernel, cpu.index());
        }
    }

    /// How long a workload's oldest request has waited for a thread, or its oldest runnable thread for a CPU. The host
    /// knows the workload as this tenant.
    pub(crate) fn queueing_delay(&self, load: usize, tenant: usize) -> Nanos {
        let waits = self.loads[load].queueing_delay(&self.kernel, tenant);
        let stages = self.graphs.oldest_waiting(load, &self.kernel).map_or(0, |since| self.kernel.now - since);
        Nanos(waits.max(stages))
    }

    /// What is counted is counted from now on.
    pub fn end_warm_up(&mut self) {
        for (load, home) in self.loads.iter_mut().zip(&self.homes) {
            load.forget(home.map_or(&self.kernel, |vm| &self.vms[vm].guest));
        }
        for vm in &mut self.vms {
            vm.forget(&self.kernel);
        }
        self.before = Before {
            from: self.kernel.now,
            busy: self.kernel.busy_time(),
            done: self.kernel.reports.counters,
            counted: self.counted(),
            bytes: self.memory_bytes(),
        };
    }

    /// Each workload, with the kernel that it runs on.
    fn each_load(&self) -> impl Iterator<Item = (&Load, &Kernel)> {
        let kernel = |home: &Option<usize>| home.map_or(&self.kernel, |vm| &self.vms[vm].guest);
        self.loads.iter().zip(self.homes.iter().map(kernel))
    }

    /// What each workload achieved since the warm-up.
    #[must_use]
    pub fn stats(&self) -> Vec<WorkloadStats> {
        let before = self.before.counted.iter().copied().chain(std::iter::repeat(Rates::default()));
        let counted = self.counted().into_iter().zip(before).map(|(now, before)| now.since(&before));
        let each = self.each_load().zip(counted);
        each.map(|((load, kernel), counted)| WorkloadStats { counted, ..load.stats(kernel) }).collect()
    }

    /// CPU time that each workload has used since time 0, ns.
    pub(crate) fn run_times(&self) -> Vec<u64> {
        self.each_load().map(|(load, kernel)| load.run_time(kernel)).collect()
    }

    /// The time since the warm-up.
    #[must_use]
    pub fn measured(&self) -> Nanos {
        Nanos(self.kernel.now - self.before.from)
    }

    /// The part of all CPUs' time since the warm-up in which they were busy, 0–1.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let all = self.measured().0 as f64 * self.kernel.cpus.len() as f64;
        if all == 0.0 { 0.0 } else { (self.kernel.busy_time() - self.before.busy) as f64 / all }
    }

    /// What the machine's kernel has done since the warm-up; guests' kernels count for themselves.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let (now, before) = (self.kernel.reports.counters, self.before.done);
        Counters {
            events: now.events - before.events,
            wake_ups: now.wake_ups - before.wake_ups,
            switches: now.switches - before.switches,
            migrations: now.migrations - before.migrations,
            balanced: now.balanced - before.balanced,
        }
    }
}

/// Lets one kernel handle a timer. If that is about a vCPU, says so: its piece of work is done, or its timer rang.
#[inline(always)]
pub(crate) fn handle(
    kernel: &mut Kernel,
    loads: &mut [Load],
    graphs: &mut Graphs,
    owners: &[Owner],
    timer: Timer,
) -> Option<Guest> {
    let guest = |vm: u32, cpu: u32| Some((vm as usize, cpu as usize));
    match timer {
        Timer::Stop(cpu) => match owners[kernel.stop(cpu as usize)?.0 as usize] {
            Owner::Thread { load, thread } if loads[load as usize].serves_stages() => {
                graphs.finished(kernel, loads, load as usize, thread as usize);
            }
            Owner::Thread { load, thread } => loads[load as usize].finished(kernel, thread as usize),
            Owner::Vcpu { vm, cpu } => return guest(vm, cpu),
        },
        Timer::Gpu => graphs.gpu_finished(kernel),
        Timer::Request(kind) => graphs.due(kernel, loads, kind as usize),
        Timer::Workload(number) => loads[number as usize].due(kernel),
        Timer::Task(task) => match owners[task as usize] {
            Owner::Thread { load, thread } => loads[load as usize].release(kernel, thread as usize),
            Owner::Vcpu { vm, cpu } => return guest(vm, cpu),
        },
        other => kernel.expire(other),
    }
    None
}

/// The group around a workload's own. `known` has those that exist, by parent.
fn group_around<'a>(
    spec: &'a WorkloadSpec,
    kernel: &mut Kernel,
    known: &mut Vec<(GroupId, &'a GroupSpec, GroupId)>,
) -> Result<GroupId, SimError> {
    let mut parent = GroupId::ROOT;
    for wanted in &spec.within {
        let found = known.iter().find(|(above, group, _)| *above == parent && group.name == wanted.name);
        parent = match found {
            Some((_, group, id)) if group.weight == wanted.weight => *id,
            Some((_, group, _)) => {
                return Err(SimError::Scenario(format!(
                    "workload '{}': its group '{}' has weight {} here and {} elsewhere: give it one",
                    spec.name, wanted.name, wanted.weight, group.weight
                )));
            }
            None => {
                let id = kernel.add_group(parent, wanted.weight);
                known.push((parent, wanted, id));
                id
            }
        };
    }
    Ok(parent)
}

/// The tighter of a quota and a limit, each None where there is none: hosts keep limits by cpu.max, whatever else is set.
pub(crate) fn tighter(quota: Option<CpuCount>, limit: Option<CpuCount>) -> Option<CpuCount> {
    match (quota, limit) {
        (Some(quota), Some(limit)) => Some(quota.min(limit)),
        (one, other) => one.or(other),
    }
}

/// A quota in CPUs as the kernel has it: time, period and burst, ns.
pub(crate) fn quota(cpus: CpuCount, period: Nanos) -> (u64, u64, u64) {
    (cpus.of(period).0, period.0, 0)
}
