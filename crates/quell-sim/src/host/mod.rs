//! The simulated machine as a host: policies look at it and set it, and know no difference.
//!
//! The policy runs beside the machine, not on it, as on a core of its own; its step and its commands take the time that
//! [`crate::Costs`] says, and the machine goes on meanwhile.

mod actuators;
mod apply;
mod capabilities;
mod lending;
mod members;
mod script;
mod sensors;

use std::convert::Infallible;
use std::sync::Arc;

use quell_model::{
    Capabilities, Controls, Event, Host, LeaseBook, LeaseLimits, Nanos, Plan, Policy, SignalSet, SoloEnd, Stack,
    ThreadId, View, Wake, Workload, WorkloadId,
};

use lending::Affinity;
use members::{Member, Members};
use sensors::Sensors;

pub use capabilities::capabilities;
pub use lending::Lending;
pub use sensors::REPORT;

use crate::kernel::{KernelConfig, Partition, TaskId};
use crate::scenario::Watch;
use crate::workload::CpuList;
use crate::{Machine, Population, Sim, SimError, VmSpec, WorkloadSpec};

/// How long the loop waits at most when a policy waits for events only.
const PATIENCE: Nanos = Nanos::from_millis(100);

/// What a policy has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PolicyCosts {
    /// Turns of the loop in which there was something to do.
    pub plans: u64,
    /// Commands carried out: knobs, grants, rules, samples, leases.
    pub commands: u64,
    /// Commands, or sets of knobs, that were refused.
    pub refused: u64,
    /// Time charged for deciding and acting.
    pub charged: Nanos,
}

/// The simulated machine as a host.
#[derive(Clone, Debug)]
pub struct SimHost {
    sim: Sim,
    members: Members,
    leases: LeaseBook,
    /// What there is to turn.
    controls: Arc<Controls>,
    happened: Vec<Event>,
    costs: PolicyCosts,
    sensors: Sensors,
    /// Who looks on, if anybody does.
    watch: Option<Watch>,
    /// Lending by affinity, where CPUs are lent like that.
    affinity: Option<Affinity>,
    /// Signals that a script withholds.
    withheld: SignalSet,
}

impl SimHost {
    /// A machine on which these workloads begin at time 0. Where Quell's own scheduler lends the CPUs, its
    /// ordinary threads are scheduled by Quell's own class; else by the kernel's. By affinity CPUs are lent to all workloads.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if a workload, VM or request makes no sense on this machine.
    pub fn new<'a>(
        machine: impl Into<Machine>,
        config: KernelConfig,
        population: impl Into<Population<'a>>,
        seed: u64,
        lending: impl Into<Lending>,
    ) -> Result<SimHost, SimError> {
        let lending = lending.into();
        let population = population.into();
        let mut sim = Sim::new(machine, config, population, seed)?;
        let Population { workloads, vms, .. } = population;
        let on_host = || workloads.iter().filter(|spec| spec.vm.is_none());
        let described = vms.iter().map(VmSpec::description).chain(on_host().map(WorkloadSpec::description));
        let specs: Vec<Arc<Workload>> = described.map(Arc::new).collect();
        if lending == Lending::Scheduler {
            let latency_critical: Vec<bool> = specs.iter().map(|spec| spec.is_lc()).collect();
            sim.kernel.use_grants(&latency_critical);
        }
        sim.begin();
        let mut happened: Vec<Event> = (0..specs.len() as u32).map(|id| Event::Attached(WorkloadId(id))).collect();
        for (number, tenant) in sim.tenants.iter().enumerate() {
            let born = tenant.tasks.iter().map(|&task| Event::ThreadBorn(WorkloadId(number as u32), thread_id(task)));
            happened.extend(born);
        }
        let of_vms = vms.iter().map(|vm| (vm.cpuset, vm.partition));
        let cpusets = of_vms.chain(on_host().map(|spec| (spec.cpuset, spec.partition)));
        let untouched = |(spec, (cpus, partition)): (Arc<Workload>, (Option<CpuList>, Partition))| Member {
            spec,
            cpus: cpus.map(|list| list.0),
            own_cpus: cpus.map(|list| list.0),
            partition,
            paused: false,
        };
        let controls = Arc::new(sim.machine.controls());
        let mut host = SimHost {
            sensors: Sensors::of(&sim),
            sim,
            members: Members::of(specs.into_iter().zip(cpusets).map(untouched)),
            leases: LeaseBook::new(LeaseLimits::default()),
            controls,
            happened,
            costs: PolicyCosts::default(),
            watch: None,
            affinity: None,
            withheld: SignalSet::default(),
        };
        if lending == Lending::Affinity {
            host.lend_by_affinity(None);
        }
        Ok(host)
    }

    /// An empty view of this machine, to begin a cycle with.
    #[must_use]
    pub fn view(&self) -> View {
        View { controls: Arc::clone(&self.controls), ..View::new(Arc::clone(&self.sim.kernel.topology)) }
    }

    /// The simulation, to look at.
    #[must_use]
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.sim.now()
    }

    /// What is counted is counted from now on.
    pub fn end_warm_up(&mut self) {
        self.sim.end_warm_up();
        self.costs = PolicyCosts::default();
    }

    /// What the policy has cost since the warm-up.
    #[must_use]
    pub fn policy_costs(&self) -> PolicyCosts {
        self.costs
    }

    /// The simulation, to ask for more of it.
    pub(crate) fn sim_mut(&mut self) -> &mut Sim {
        &mut self.sim
    }

    /// A workload's name, or a VM's.
    pub(crate) fn name_of(&self, id: WorkloadId) -> Option<&str> {
        self.members.get(id).map(|member| member.spec.name.as_str())
    }

    /// The workload of this name.
    pub(crate) fn number_of(&self, name: &str) -> Option<usize> {
        self.members.each().find(|(_, member)| member.spec.name == name).map(|(id, _)| id.index())
    }

    /// Somebody looks on from now on.
    pub(crate) fn begin_watch(&mut self, watch: Watch) {
        self.watch = Some(watch);
    }

    /// The observer is removed; what it recorded.
    pub(crate) fn end_watch(&mut self) -> Option<Watch> {
        self.look();
        let mut watch = self.watch.take()?;
        watch.close_last(self);
        Some(watch)
    }

    /// The observer closes the parts of the time that are over.
    fn look(&mut self) {
        if let Some(mut watch) = self.watch.take_if(|watch| watch.next() <= self.sim.now()) {
            watch.look(self);
            self.watch = Some(watch);
        }
    }

    fn next_look(&self) -> Nanos {
        self.watch.as_ref().map_or(Nanos::MAX, Watch::next)
    }

    /// Takes the samples that are due.
    fn take_samples(&mut self) {
        self.sensors.counters.take_samples(&self.sim, &mut self.happened);
    }

    /// Time passes until then, whatever happens.
    fn let_pass(&mut self, until: Nanos) {
        while self.sim.now() < until {
            self.sim.run_until(until.min(self.next_look()).min(self.sensors.counters.next_sample()));
            self.take_samples();
            self.look();
        }
    }

    fn pass(&mut self, until: Nanos) {
        while self.sim.now() < until && self.sim.kernel.reports.happened.is_empty() && self.happened.is_empty() {
            let ends = self.leases.ends_at().unwrap_or(Nanos::MAX);
            self.sim.run_until_event(until.min(ends).min(self.next_look()).min(self.sensors.counters.next_sample()));
            self.take_samples();
            while let Some(lease) = self.leases.expire(self.sim.now()) {
                self.lease_ended(lease.solo, SoloEnd::Elapsed);
            }
            self.look();
        }
        self.happened.append(&mut self.sim.kernel.reports.happened);
    }
}

/// A thread's name for policies.
fn thread_id(task: TaskId) -> ThreadId {
    ThreadId { tid: task.0 as i32 + 1, start: 0 }
}

/// Turns the loop until this time; `seen` may look at each turn.
pub fn drive<P: Policy>(
    host: &mut SimHost,
    stack: &mut Stack<P>,
    until: Nanos,
    mut seen: impl FnMut(&SimHost, &Stack<P>),
) {
    while host.sim.now() < until {
        let Ok(wake) = stack.turn(host);
        seen(host, stack);
        let Ok(()) = host.wait(wake.sooner(Wake::At(until)));
    }
}

impl Host for SimHost {
    type Error = Infallible;

    fn capabilities(&self) -> Capabilities {
        capabilities(self.lending(), self.sim.measured_of_memory())
    }

    fn observe(&mut self, wanted: SignalSet, view: &mut View, events: &mut Vec<Event>) -> Result<(), Infallible> {
        view.now = self.sim.now();
        if !Arc::ptr_eq(&view.controls, &self.controls) {
            view.controls = Arc::clone(&self.controls);
        }
        self.members.report(view);
        view.blank(wanted);
        self.sensors.observe(wanted.difference(self.withheld), &self.members, &mut self.sim, view);
        events.append(&mut self.happened);
        events.append(&mut self.sim.kernel.reports.happened);
        self.look_at_lent(events);
        if let Some(affinity) = &self.affinity {
            view.cpus.holder.clear();
            view.cpus.holder.extend_from_slice(affinity.all());
        }
        Ok(())
    }

    fn apply(&mut self, plan: &Plan, events: &mut Vec<Event>) -> Result<(), Infallible> {
        self.obey(plan, events);
        Ok(())
    }

    fn wait(&mut self, until: Wake) -> Result<(), Infallible> {
        let now = self.sim.now();
        let until = self.affinity.as_mut().map_or(until, |affinity| affinity.not_before(until));
        self.pass(match until {
            Wake::At(at) => at.max(now + Nanos(1)),
            Wake::OnEvent => now + PATIENCE,
        });
        Ok(())
    }
}
