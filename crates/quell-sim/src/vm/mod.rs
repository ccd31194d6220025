//! Virtual machines: a guest's kernel on CPUs that are threads of the host.
//!
//! A vCPU is one host thread. While it runs, the guest's CPU runs what the guest's scheduler picked; while it waits, the
//! guest's CPU is away; when the guest has nothing for it, it halts and the thread sleeps. A guest that wants a halted
//! vCPU sends an interrupt, which wakes the host thread a little later.

mod join;
mod poll;
mod spec;

use std::sync::Arc;

use quell_model::{Class, Topology};

use crate::Stream;
use crate::kernel::{GroupId, Kernel, ServerSpec, TaskId};
use crate::sim::{Owner, Sim, Tenant, quota, tighter};
use crate::workload::QUOTA_PERIOD;

pub(crate) use join::Guest;
pub(crate) use spec::homes;
pub use spec::{Deferrable, VmSpec};

/// Random streams of VMs come after those of workloads.
const STREAMS: u64 = 1 << 32;

/// What a vCPU's host thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is in the guest, or wants to be.
    Guest,
    /// It has left the guest and looks for work before it sleeps.
    Polling,
    /// It leaves the guest to sleep, and is done with that at this time if nothing comes between.
    Halting(u64),
    /// It sleeps.
    Halted,
}

/// A vCPU.
#[derive(Clone, Debug)]
struct VirtualCpu {
    /// Its host thread.
    task: TaskId,
    state: State,
    /// The host's CPU that it runs on.
    on: Option<usize>,
    /// An interrupt is on its way to it, from this CPU of the host, if it comes from one.
    called: Option<Option<usize>>,
    /// Up to this time it was reported to be in the host.
    in_host_until: u64,
    poll: poll::Window,
}

/// What a VM had since the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct VmStats {
    /// CPU time of its vCPUs on the host, ns.
    pub run_time: u64,
    /// Time that its vCPUs waited for a CPU of the host, ns: what a guest calls stolen.
    pub run_delay: u64,
    /// Times a vCPU halted because its guest had nothing for it.
    pub halts: u64,
    /// Interrupts sent to halted vCPUs, from other vCPUs and from outside.
    pub interrupts: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Exits {
    halts: u64,
    interrupts: u64,
}

/// A VM under way.
#[derive(Clone, Debug)]
pub(crate) struct Vm {
    pub guest: Kernel,
    /// By thread of the guest: its workload, and its place there.
    pub owners: Vec<Owner>,
    exits: Exits,
    before: VmStats,
    cpus: Vec<VirtualCpu>,
    /// vCPUs that may be polling.
    polling: Vec<usize>,
    interrupts: Stream,
}

impl Vm {
    /// A VM that has just booted; all its vCPUs are halted. `stream`: where interrupts from outside come.
    pub fn new(spec: &VmSpec, tasks: &[TaskId], interrupts: Stream) -> Vm {
        let mut config = spec.kernel.clone();
        // What an idle CPU's exit costs is the host's; the guest's is a switch.
        config.costs.idle_exit = config.costs.idle_exit.min(config.costs.context_switch);
        let mut guest = Kernel::new(Arc::new(Topology::synthetic(1, 1, spec.vcpus, 1)), config);
        guest.become_guest();
        let cpu = |&task: &TaskId| VirtualCpu {
            task,
            state: State::Halted,
            on: None,
            called: None,
            in_host_until: 0,
            poll: poll::Window::default(),
        };
        let cpus = tasks.iter().map(cpu).collect();
        let (exits, before) = (Exits::default(), VmStats::default());
        Vm { guest, owners: Vec::new(), exits, before, cpus, polling: Vec::new(), interrupts }
    }

    /// The CPU of the host that a vCPU runs on.
    pub fn host_cpu(&self, vcpu: usize) -> Option<usize> {
        self.cpus[vcpu].on
    }

    /// What it has had since it booted.
    fn total(&self, host: &Kernel) -> VmStats {
        let sum = |of: fn(&Kernel, TaskId) -> u64| self.cpus.iter().map(|cpu| of(host, cpu.task)).sum();
        VmStats {
            run_time: sum(Kernel::run_time),
            run_delay: sum(Kernel::run_delay),
            halts: self.exits.halts,
            interrupts: self.exits.interrupts,
        }
    }

    /// The warm-up is over.
    pub fn forget(&mut self, host: &Kernel) {
        self.before = self.total(host);
    }

    /// What it had since then.
    pub fn stats(&self, host: &Kernel) -> VmStats {
        let (now, before) = (self.total(host), self.before);
        VmStats {
            run_time: now.run_time - before.run_time,
            run_delay: now.run_delay - before.run_delay,
            halts: now.halts - before.halts,
            interrupts: now.interrupts - before.interrupts,
        }
    }
}

impl Sim {
    pub(crate) fn add_vm(&mut self, number: usize, spec: &VmSpec, seed: u64) {
        let kernel = &mut self.kernel;
        if number == 0 {
            kernel.note_changes();
        }
        let group = kernel.add_group(GroupId::ROOT, spec.weight);
        kernel.set_cpus(group, spec.cpuset.map(|list| list.0));
        kernel.set_partition(group, spec.partition);
        kernel.set_idle(group, spec.idle);
        kernel.set_quota(group, tighter(spec.quota, spec.limit).map(|cpus| quota(cpus, QUOTA_PERIOD)));
        let mut tasks = Vec::new();
        for cpu in 0..spec.vcpus {
            let task = kernel.spawn(group, number as u32, spec.scheduling);
            if let Some(list) = spec.affinity.get(cpu as usize % spec.affinity.len().max(1)) {
                kernel.set_affinity(task, Some(list.0));
                if let (Some(Deferrable { budget, period, priority }), Some(cpu)) = (spec.deferrable, list.0.lowest()) {
                    let in_turns = spec.class == Class::BestEffort;
                    kernel.set_server(number as u32, cpu, ServerSpec { budget, period, priority, in_turns });
                }
            }
            self.owners.push(Owner::Vcpu { vm: number as u32, cpu });
            tasks.push(task);
        }
        let mut vm = Vm::new(spec, &tasks, Stream::new(seed, STREAMS + number as u64));
        vm.guest.set_seed(seed, 1 + number as u64);
        self.vms.push(vm);
        self.tenants.push(Tenant { group, tasks, ended: Vec::new(), load: None });
    }

    /// What each VM had since the warm-up.
    #[must_use]
    pub fn vm_stats(&self) -> Vec<VmStats> {
        self.vms.iter().map(|vm| vm.stats(&self.kernel)).collect()
    }
}
