//! Who gets how much of the CPUs: by weight, through groups, under quotas, and in rKube's drawings. The simulated
//! kernel costs nothing here.

use quell_model::{Class, CpuCount, Nanos, SchedClass, Topology};

use crate::experiment::usual::usual_kernel;
use crate::workload::{BatchSpec, ClosedSpec, CpuList, Dispatch, GroupSpec, Service, WorkloadStats};
use crate::{Costs, FairScheduler, KernelConfig, Sim, SimError, TaskId, WorkloadSpec};

/// What is not counted at the beginning.
const WARM_UP: Nanos = Nanos::from_secs(1);

/// How long to look, and what is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// For whatever is random.
    pub seed: u64,
    /// Counted.
    pub length: Nanos,
}

/// A kernel whose actions cost nothing, with this scheduler.
#[must_use]
pub fn kernel(fair: FairScheduler) -> KernelConfig {
    KernelConfig { fair, costs: Costs::FREE, ..usual_kernel() }
}

/// Threads that always have something to do, in a group of this weight.
#[must_use]
pub fn hog(name: &str, weight: u32, threads: u32) -> WorkloadSpec {
    let batch = Some(BatchSpec::default());
    WorkloadSpec { weight, threads, batch, ..WorkloadSpec::new(name, Class::BestEffort) }
}

/// What the workloads achieve on this many CPUs in this time, after a warm-up.
///
/// # Errors
/// [`SimError::Scenario`] if a workload makes no sense.
pub fn stats(
    cpus: u32,
    config: KernelConfig,
    workloads: &[WorkloadSpec],
    span: Span,
) -> Result<Vec<WorkloadStats>, SimError> {
    let mut sim = Sim::new(Topology::synthetic(1, 1, cpus, 1), config, workloads, span.seed)?;
    sim.begin();
    sim.run_until(WARM_UP);
    sim.end_warm_up();
    sim.run_until(WARM_UP + span.length);
    Ok(sim.stats())
}

/// CPUs' worth of time that the workloads get on this many CPUs in this time, after a warm-up.
///
/// # Errors
/// [`SimError::Scenario`] if a workload makes no sense.
pub fn shares(cpus: u32, config: KernelConfig, workloads: &[WorkloadSpec], span: Span) -> Result<Vec<f64>, SimError> {
    let stats = stats(cpus, config, workloads, span)?;
    Ok(stats.iter().map(|stats| stats.run_time as f64 / span.length.0 as f64).collect())
}

/// Two groups of weights 100 and 300 on one CPU. In the first are one of 100 and one of 300, in the second two of 100,
/// one of them with three threads. What each of the four is due: 1, 3, 6 and 6 sixteenths.
#[must_use]
pub fn nested() -> (Vec<WorkloadSpec>, Vec<f64>) {
    let below = |name: &str, weight: u32, spec: WorkloadSpec| {
        let above = GroupSpec { name: name.to_owned(), weight };
        WorkloadSpec { within: vec![above], ..spec }
    };
    let specs = vec![
        below("first", 100, hog("a", 100, 1)),
        below("first", 100, hog("b", 300, 1)),
        below("second", 300, hog("c", 100, 1)),
        below("second", 300, hog("d", 100, 3)),
    ];
    (specs, vec![1.0 / 16.0, 3.0 / 16.0, 6.0 / 16.0, 6.0 / 16.0])
}

/// What the ordinary one of two threads of one group gets of a CPU when the other is SCHED_IDLE.
///
/// # Errors
/// [`SimError::Scenario`] never.
pub fn beside_idle_thread(config: KernelConfig, span: Span) -> Result<f64, SimError> {
    let mut sim = Sim::new(Topology::synthetic(1, 1, 1, 1), config, &[hog("both", 100, 2)], span.seed)?;
    let (ordinary, idle) = (TaskId(0), TaskId(1));
    sim.kernel.set_class(idle, SchedClass::Idle);
    sim.begin();
    sim.run_until(WARM_UP);
    let before = sim.kernel.run_time(ordinary);
    sim.run_until(WARM_UP + span.length);
    Ok((sim.kernel.run_time(ordinary) - before) as f64 / span.length.0 as f64)
}

/// rKube's Table 2 on three CPUs: the target T with one thread and weight 1024, its neighbour N with three and 2048,
/// which may be capped at the 2 CPUs that it requested. As drawn, T is on CPU 0 with one of N's threads, and the others
/// have a CPU each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table2 {
    /// Is N capped?
    pub capped: bool,
    /// Is every thread where Figures 3 and 4 draw it?
    pub pinned: bool,
}

impl Table2 {
    fn with_neighbour(self, target: WorkloadSpec) -> [WorkloadSpec; 2] {
        let places = |cpus: &[&str]| -> Vec<CpuList> {
            let on = |cpu: &&str| CpuList(cpu.parse().expect("a CPU's number"));
            if self.pinned { cpus.iter().map(on).collect() } else { Vec::new() }
        };
        let quota = self.capped.then_some(CpuCount::whole(2));
        let neighbour = WorkloadSpec { affinity: places(&["0", "1", "2"]), quota, ..hog("N", 200, 3) };
        [WorkloadSpec { affinity: places(&["0"]), ..target }, neighbour]
    }

    /// What T gets of the CPU that it requested when it always has something to do (Figure 3).
    ///
    /// # Errors
    /// [`SimError::Scenario`] never.
    pub fn batch_target(self, config: KernelConfig, span: Span) -> Result<f64, SimError> {
        Ok(shares(3, config, &self.with_neighbour(hog("T", 100, 1)), span)?[0])
    }

    /// T answers one request after the other (Figure 4); without a neighbour it is alone on its CPU.
    ///
    /// # Errors
    /// [`SimError::Scenario`] never.
    pub fn interactive_target(
        self,
        config: KernelConfig,
        has_neighbour: bool,
        span: Span,
    ) -> Result<Interactive, SimError> {
        let closed = ClosedSpec { clients: 1, think: THINK, pace: None, service: REQUEST, dispatch: Dispatch::Pool };
        let target = WorkloadSpec { closed: Some(closed), ..WorkloadSpec::new("T", Class::LatencyCritical) };
        let both = self.with_neighbour(target);
        let stats = stats(3, config, if has_neighbour { &both } else { &both[..1] }, span)?;
        let per = span.length.as_secs_f64();
        Ok(Interactive {
            latency: stats[0].latencies.mean(),
            requests_per_second: stats[0].latencies.count() as f64 / per,
            cpus: stats[0].run_time as f64 / span.length.0 as f64,
            neighbour_cpus: stats.get(1).map_or(0.0, |neighbour| neighbour.run_time as f64 / span.length.0 as f64),
        })
    }
}

/// Figure 4's target "may wake up and only do a relatively small amount of work before going back to sleep" (§4.2): so
/// little, a few requests in each of CFS's slices, …
const REQUEST: Service = Service::Constant(Nanos::from_micros(300));
/// … so soon after the last (assumed; alone it uses three quarters of its CPU).
const THINK: Service = Service::Exponential(Nanos::from_micros(100));

/// How Figure 4's target fares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interactive {
    /// Mean latency of a request.
    pub latency: Nanos,
    /// Requests answered.
    pub requests_per_second: f64,
    /// CPUs' worth of time that it got.
    pub cpus: f64,
    /// The same of its neighbour.
    pub neighbour_cpus: f64,
}
