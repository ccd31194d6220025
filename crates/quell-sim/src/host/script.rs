//! What a test's script does to the machine while policies run on it: workloads and threads come and go, demand changes,
//! CPUs go offline, signals are withheld.

use std::sync::Arc;

use quell_model::{
    CpuId, CpuSet, Event, LeaseBook, LeaseLimits, SchedClass, SignalSet, SoloEnd, ThreadId, Workload, WorkloadId,
};

use super::members::Member;
use super::{SimHost, thread_id};
use crate::{SimError, WorkloadSpec};

impl SimHost {
    /// A workload comes into the first free slot, and begins.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if it makes no sense on this machine, or is in a VM, in groups of its own, or a pool of a
    /// request's.
    pub fn attach(&mut self, spec: &WorkloadSpec) -> Result<WorkloadId, SimError> {
        let id = self.members.free();
        self.sim.attach(spec, id.index())?;
        let member = Member {
            spec: Arc::new(spec.description()),
            cpus: spec.cpuset.map(|list| list.0),
            own_cpus: spec.cpuset.map(|list| list.0),
            partition: spec.partition,
            paused: false,
        };
        self.members.attach(id, member);
        self.sensors.admit(id, &mut self.sim);
        if let Some(affinity) = &mut self.affinity {
            affinity.admit(id);
        }
        self.refit();
        self.sim.settle();
        self.happened.push(Event::Attached(id));
        let born = self.sim.tenants[id.index()].tasks.iter().map(|&task| Event::ThreadBorn(id, thread_id(task)));
        self.happened.extend(born);
        Ok(id)
    }

    /// A workload ends: its threads are gone, its CPUs are no workload's, its rules are void. False: there is none, it is a
    /// VM, or it works on stages of requests.
    pub fn detach(&mut self, id: WorkloadId) -> bool {
        if !self.sim.detach(id.index()) {
            return false;
        }
        self.members.detach(id);
        if let Some(affinity) = &mut self.affinity {
            affinity.dismiss(id);
        }
        self.end_lease(id, SoloEnd::Detached);
        self.refit();
        self.sim.settle();
        self.happened.push(Event::Detached(id));
        true
    }

    /// A thread of a workload's is born, of its first thread's class. None: its kind of work cannot have more.
    pub fn add_thread(&mut self, id: WorkloadId) -> Option<ThreadId> {
        let born = thread_id(self.sim.add_thread(id.index())?);
        self.refit();
        self.sim.settle();
        self.happened.push(Event::ThreadBorn(id, born));
        Some(born)
    }

    /// The youngest thread of a workload's ends. None: it has only one, or its kind of work cannot have fewer.
    pub fn end_thread(&mut self, id: WorkloadId) -> Option<ThreadId> {
        let ended = thread_id(self.sim.end_thread(id.index())?);
        self.happened.push(Event::ThreadDied(id, ended));
        Some(ended)
    }

    /// This many requests of a server's arrive now.
    pub fn send(&mut self, id: WorkloadId, requests: usize) {
        self.sim.send(id.index(), requests);
    }

    /// Each thread of a workload's wants this part (0–1) of a CPU from now on: requests of an open loop come as often,
    /// periodic jobs take as long, threads of batch work are busy if that is anything, and sleep else.
    pub fn set_demand(&mut self, id: WorkloadId, demand: f64) {
        self.sim.set_demand(id.index(), demand);
    }

    /// A CPU goes offline or comes back. The last one stays.
    pub fn set_online(&mut self, cpu: CpuId, online: bool) {
        if self.sim.set_online(cpu, online) {
            if let Some(affinity) = self.affinity.as_mut().filter(|_| !online) {
                affinity.take(cpu);
            }
            self.refit();
            self.sim.settle();
            self.happened.push(if online { Event::Online(cpu) } else { Event::Offline(cpu) });
        }
    }

    /// From now on jobs, and requests of graphs, are written down one by one.
    pub fn begin_log(&mut self) {
        self.sim.begin_log();
    }

    /// Bounds solo runs by these limits.
    pub fn limit_leases(&mut self, limits: LeaseLimits) {
        self.leases = LeaseBook::new(limits);
    }

    /// These signals are absent from now on, although the host says that it measures them.
    pub fn withhold(&mut self, signals: SignalSet) {
        self.withheld = signals;
    }

    /// How many slots for workloads there are, the empty ones included.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.members.slots()
    }

    /// The cache ways that a workload may fill in the first LLC, as set; None where contention is not modelled.
    #[must_use]
    pub fn cache_ways(&self, id: WorkloadId) -> Option<u32> {
        self.ways_of_llc(id, 0)
    }

    /// The same in one LLC.
    #[must_use]
    pub fn ways_of_llc(&self, id: WorkloadId, llc: usize) -> Option<u32> {
        let all = u32::MAX >> (32 - self.sim.machine.llc.ways.clamp(1, 32));
        Some(self.sim.contention.as_ref()?.settings.ways_of(id.index(), llc)? & all)
    }

    /// What the memory throttle leaves a workload, 0–1; None: nothing was set.
    #[must_use]
    pub fn throttle(&self, id: WorkloadId) -> Option<f64> {
        self.sim.contention.as_ref()?.settings.throttle_of(id.index())
    }

    /// The socket that a workload's memory is on; None: nothing was set.
    #[must_use]
    pub fn home(&self, id: WorkloadId) -> Option<usize> {
        self.sim.contention.as_ref()?.settings.home_of(id.index())
    }

    /// The highest frequency that is set for a CPU, kHz.
    #[must_use]
    pub fn max_khz(&self, cpu: CpuId) -> u32 {
        let set = self.sim.contention.as_ref().and_then(|contention| contention.settings.khz_of(cpu));
        set.unwrap_or(self.sim.machine.frequencies.max_khz)
    }

    /// A workload as its owner describes it.
    #[must_use]
    pub fn spec(&self, id: WorkloadId) -> Option<&Workload> {
        self.members.get(id).map(|member| &*member.spec)
    }

    /// The CPUs that a workload was given, or all that are online.
    #[must_use]
    pub fn cpus_of(&self, id: WorkloadId) -> CpuSet {
        self.members.get(id).map_or(CpuSet::EMPTY, |member| member.cpus.unwrap_or(self.sim.kernel.masks.online))
    }

    /// The scheduling class of each of a workload's threads.
    pub fn classes(&self, id: WorkloadId) -> impl Iterator<Item = SchedClass> {
        let tenant = self.members.has(id).then(|| &self.sim.tenants[id.index()]);
        tenant.into_iter().flat_map(|tenant| tenant.tasks.iter().map(|&task| self.sim.kernel.task(task).class))
    }

    /// CPUs that are online.
    #[must_use]
    pub fn online(&self) -> CpuSet {
        self.sim.kernel.masks.online
    }

    /// CPUs that sibling bans park.
    #[must_use]
    pub fn banned(&self) -> CpuSet {
        self.sim.kernel.grants.banned
    }
}
