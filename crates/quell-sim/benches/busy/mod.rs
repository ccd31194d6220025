//! Busy machines whose kernel events are counted: wake-ups, switches, completions, and ticks on busy CPUs.

use quell_model::{Class, CpuCount, Nanos, Topology};
use quell_sim::contention::library::named;
use quell_sim::contention::{MissCurve, Profile, ProfileName};
use quell_sim::workload::{Arrivals, BatchSpec, Dispatch, ServerSpec, Service};
use quell_sim::{Costs, KernelConfig, Sim, WorkloadSpec};

/// A machine and what it is busy with.
pub struct Busy {
    /// Its name.
    pub name: String,
    topology: Topology,
    config: KernelConfig,
    workloads: Vec<WorkloadSpec>,
}

impl Busy {
    /// Simulates it for this long. Returns the number of kernel events.
    pub fn simulate(&self, span: Nanos) -> u64 {
        let mut sim = Sim::new(self.topology.clone(), self.config.clone(), &self.workloads, 1).expect("it makes sense");
        sim.begin();
        sim.run_until(span);
        sim.counters().events
    }
}

/// Four machines, with a kernel that has no mechanisms and present loads, with the usual one, and with contention.
pub fn all() -> Vec<Busy> {
    let machines = [
        (8, Topology::synthetic(1, 1, 8, 1)),
        (24, Topology::synthetic(1, 1, 12, 2)),
        (48, Topology::synthetic(2, 1, 12, 2)),
        (80, Topology::synthetic(4, 1, 20, 1)),
    ];
    let each = |(cpus, topology): (u32, Topology)| {
        let kinds = [
            (KernelConfig { costs: Costs::default(), ..KernelConfig::plain() }, colocation(cpus), ", no mechanisms"),
            (KernelConfig::default(), colocation(cpus), ""),
            (KernelConfig::default(), contended(cpus), ", contention"),
        ];
        kinds.map(|(config, workloads, what)| Busy {
            name: format!("{cpus} CPUs{what}"),
            topology: topology.clone(),
            config,
            workloads,
        })
    };
    machines.into_iter().flat_map(each).collect()
}

/// A busy server on half of the CPUs and batch work on all: most events switch threads.
fn colocation(cpus: u32) -> Vec<WorkloadSpec> {
    let service = Service::Exponential(Nanos::from_micros(50));
    let arrivals = Arrivals::Poisson(f64::from(cpus) * 0.25 / 50e-6);
    let server = WorkloadSpec {
        threads: cpus,
        cpus: CpuCount::whole(cpus / 2),
        weight: 10_000,
        server: Some(ServerSpec { arrivals, service, dispatch: Dispatch::Pool }),
        ..WorkloadSpec::new("server", Class::LatencyCritical)
    };
    let batch = Some(BatchSpec::default());
    let hogs = WorkloadSpec { threads: cpus, idle: true, batch, ..WorkloadSpec::new("batch", Class::BestEffort) };
    vec![server, hogs]
}

/// The same where all slow each other down: a server whose data fits into half of the cache beside batch work that
/// streams.
fn contended(cpus: u32) -> Vec<WorkloadSpec> {
    let cached = Profile {
        cpi: 0.8,
        llc_references: 20.0,
        misses: MissCurve(vec![(0.0, 0.8), (15.0, 0.05)].into()),
        parallelism: 2.0,
        ..named("streaming").expect("it is known").clone()
    };
    let profiles = [ProfileName::Own(cached), ProfileName::Known("streaming".into())];
    let with = |(spec, profile)| WorkloadSpec { profile: Some(profile), ..spec };
    colocation(cpus).into_iter().zip(profiles).map(with).collect()
}
