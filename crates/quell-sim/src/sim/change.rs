//! What changes on the machine while time passes: workloads and threads come and go, demand changes, CPUs go offline.

use quell_model::CpuId;

use super::{Owner, Sim, Tenant};
use crate::kernel::{GroupId, Partition, TaskId};
use crate::{SimError, WorkloadSpec};

impl Sim {
    /// A workload comes, and begins. The host knows it as this tenant: one that is gone, or the next.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if it makes no sense on this machine, or is in a VM, in groups of its own, or a pool of a
    /// request's.
    pub(crate) fn attach(&mut self, spec: &WorkloadSpec, tenant: usize) -> Result<(), SimError> {
        spec.check(&self.machine.topology.all()).map_err(SimError::Scenario)?;
        if spec.vm.is_some() || spec.pool.is_some() || !spec.within.is_empty() {
            let what = "what comes while time passes runs on the host, below the root, and has work of its own";
            return Err(SimError::Scenario(format!("workload '{}': {what}", spec.name)));
        }
        let number = self.loads.len();
        let phases = self.admit_phases(spec, tenant).map_err(SimError::Scenario)?;
        self.kernel.admit(tenant, spec.description().is_lc());
        self.homes.push(None);
        self.add(number, spec, GroupId::ROOT, phases, tenant);
        self.loads[number].start(&mut self.kernel);
        self.settle();
        Ok(())
    }

    /// A workload of the host's ends. False: there is none, it is a VM, or it works on stages of requests.
    pub(crate) fn detach(&mut self, tenant: usize) -> bool {
        let Some(load) = self.load_of(tenant).filter(|&load| !self.loads[load].serves_stages()) else { return false };
        self.loads[load].end(&mut self.kernel);
        self.kernel.dismiss(tenant);
        let Tenant { group, tasks, load, .. } = &mut self.tenants[tenant];
        tasks.clear();
        *load = None;
        self.kernel.set_partition(*group, Partition::Member);
        self.kernel.set_cpus(*group, None);
        self.settle();
        true
    }

    /// A thread of a workload's is born, of its first thread's class and affinity. None: it cannot have more.
    pub(crate) fn add_thread(&mut self, tenant: usize) -> Option<TaskId> {
        let load = self.load_of(tenant).filter(|&load| self.loads[load].can_change_threads())?;
        let first = *self.tenants[tenant].tasks.first()?;
        let (group, class, affinity) = {
            let first = self.kernel.task(first);
            (first.group, first.class, first.affinity)
        };
        let born = self.kernel.spawn(group, tenant as u32, class);
        self.kernel.set_affinity(born, affinity);
        self.owners.push(Owner::Thread { load: load as u32, thread: self.loads[load].tasks().len() as u32 });
        self.tenants[tenant].tasks.push(born);
        self.loads[load].add_thread(&mut self.kernel, born);
        self.settle();
        Some(born)
    }

    /// The last thread of a workload's ends. None: it has only one, or cannot have fewer.
    pub(crate) fn end_thread(&mut self, tenant: usize) -> Option<TaskId> {
        let load = self.load_of(tenant).filter(|&load| self.loads[load].can_change_threads())?;
        let ended = self.loads[load].end_thread(&mut self.kernel)?;
        self.tenants[tenant].tasks.retain(|&task| task != ended);
        self.tenants[tenant].ended.push(ended);
        self.settle();
        Some(ended)
    }

    /// This many requests of a workload's arrive now.
    pub(crate) fn send(&mut self, tenant: usize, requests: usize) {
        if let Some(load) = self.load_of(tenant) {
            self.loads[load].send(&mut self.kernel, requests);
            self.settle();
        }
    }

    /// Each thread of a workload's wants this part (0–1) of a CPU from now on.
    pub(crate) fn set_demand(&mut self, tenant: usize, demand: f64) {
        if let Some(load) = self.load_of(tenant) {
            self.loads[load].set_demand(&mut self.kernel, demand);
            self.settle();
        }
    }

    /// A CPU goes offline or comes back. False: it is so already, or it is the last one.
    pub(crate) fn set_online(&mut self, cpu: CpuId, online: bool) -> bool {
        let kernel = &mut self.kernel;
        let is_there = kernel.topology.cpu(cpu).is_some() && kernel.masks.online.contains(cpu) != online;
        if !is_there || !online && kernel.masks.online.len() == 1 {
            return false;
        }
        kernel.set_online(cpu, online);
        self.settle();
        true
    }

    fn load_of(&self, tenant: usize) -> Option<usize> {
        self.tenants.get(tenant)?.load
    }
}
