//! Experiments as files: machine, kernel, workloads, policies, and for how long.

mod interval;
mod like;
mod machine;
mod read;
mod remarks;
mod report;
mod run;
mod shipped;
mod stack;
mod sweep;
mod watch;

use quell_model::{LeaseLimits, Nanos, Scheduler, Topology};
use serde::{Deserialize, Serialize};

use crate::contention::{ContentionSpec, MeasuredOfMemory};
use crate::machine::{PRESETS, Preset};
use crate::sim::tighter;
use crate::vm::homes;
use crate::workload::graph::{GraphSpec, LockSpec, Plans, RequestSpec};
use crate::{KernelConfig, Machine, SimError, VmSpec, WorkloadSpec};

pub use interval::{BLOCKS, Block, Intervals, QUANTILES, Quantile};
pub use read::{one_line, parameters_in, place_of};
pub use remarks::Remark;
pub use report::{CounterReport, Report, WorkloadReport};
pub use run::{Observed, Run, Treatment, run, run_in_detail};
pub use shipped::{SHIPPED, Shipped};
pub use stack::{Owned, PolicySpec, StackSpec};
pub use sweep::{Axis, Point, Sweep, label};
pub(crate) use watch::Watch;
pub use watch::{Course, Detail, PARTS, WorkloadCourse};

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is about, in one line.
    #[serde(default)]
    pub title: String,
    /// The first run's seed; that of repetition n is n higher.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// Length of the measured part.
    pub duration: Nanos,
    /// Length of the part before it, which is not counted.
    #[serde(default)]
    pub warm_up: Nanos,
    /// Runs of each policy.
    #[serde(default = "once")]
    pub repetitions: u32,
    /// Keys, each with the values to run the whole with: all combinations of them. [`Sweep`] makes scenarios of them.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub sweep: toml::Table,
    /// The machine.
    pub machine: MachineSpec,
    /// What threads do to each other's speed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub contention: ContentionSpec,
    /// Bounds of solo runs, as in a configuration.
    #[serde(default, skip_serializing_if = "is_default")]
    pub solo_runs: LeaseLimits,
    /// The kernel's settings.
    #[serde(default)]
    pub kernel: KernelConfig,
    /// The stacks of policies to compare; see [`Scenario::stacks`].
    #[serde(default, rename = "stack", skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackSpec>,
    /// Policies to compare, each a stack of one.
    #[serde(default, rename = "policy")]
    pub policies: Vec<PolicySpec>,
    /// The virtual machines. A workload runs in the one that it names.
    #[serde(default, rename = "vm", skip_serializing_if = "Vec::is_empty")]
    pub vms: Vec<VmSpec>,
    /// The workloads.
    #[serde(rename = "workload")]
    pub workloads: Vec<WorkloadSpec>,
    /// Requests that pass through the workloads' pools.
    #[serde(default, rename = "request")]
    pub requests: Vec<RequestSpec>,
    /// Locks of requests.
    #[serde(default, rename = "lock")]
    pub locks: Vec<LockSpec>,
}

fn first_seed() -> u64 {
    1
}

fn once() -> u32 {
    1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A machine: one of the papers', or one of a regular shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum MachineSpec {
    /// A preset's name.
    Named(String),
    /// A preset, and whose scheduler runs there.
    Preset {
        /// Its name.
        preset: String,
        /// As in a configuration.
        scheduler: Scheduler,
    },
    /// A shape.
    Shape(Shape),
}

/// A regular machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Sockets.
    #[serde(default = "once")]
    pub sockets: u32,
    /// Last-level caches in each.
    #[serde(default = "once")]
    pub llcs: u32,
    /// Cores on each cache.
    pub cores: u32,
    /// CPUs of each core.
    #[serde(default = "once")]
    pub threads: u32,
    /// Whose scheduler runs, as in a configuration; by default Quell's own where a policy grants CPUs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheduler: Scheduler,
}

impl MachineSpec {
    /// Whose scheduler runs there.
    #[must_use]
    pub fn scheduler(&self) -> Scheduler {
        match self {
            MachineSpec::Named(_) => Scheduler::Auto,
            MachineSpec::Preset { scheduler, .. } | MachineSpec::Shape(Shape { scheduler, .. }) => *scheduler,
        }
    }

    /// The machine.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if there is no such preset, or the shape has no or too many CPUs.
    pub fn machine(&self) -> Result<Machine, SimError> {
        match self {
            MachineSpec::Named(name) | MachineSpec::Preset { preset: name, .. } => {
                Preset::named(name).map(Preset::machine).ok_or_else(|| {
                    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
                    SimError::Scenario(format!("there is no machine '{name}'; there are: {}", names.join(", ")))
                })
            }
            MachineSpec::Shape(Shape { sockets, llcs, cores, threads, .. }) => {
                let factors = [sockets, llcs, cores, threads];
                let cpus = factors.iter().try_fold(1u32, |product, &&factor| product.checked_mul(factor));
                match cpus {
                    Some(1..=1024) => Ok(Topology::synthetic(*sockets, *llcs, *cores, *threads).into()),
                    _ => Err(SimError::Scenario("a machine has 1 to 1024 CPUs: change its shape".into())),
                }
            }
        }
    }
}

/// At most this many copies of one thing.
const COPIES: u32 = 10_000;

impl Scenario {
    /// What all repetitions under one stack showed together.
    #[must_use]
    pub fn report(&self, stack: &str, runs: &[Observed]) -> Report {
        Report::new(self, stack, runs)
    }

    /// The machine, with what its threads do to each other.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if there is no such machine.
    pub fn machine(&self) -> Result<Machine, SimError> {
        Ok(Machine { contention: self.contention, ..self.machine.machine()? })
    }

    /// Do threads slow each other down in it?
    #[must_use]
    pub fn has_contention(&self) -> bool {
        let mut stages = self.requests.iter().flat_map(|request| &request.stages);
        let has_profile = self.workloads.iter().any(WorkloadSpec::has_profile);
        self.contention.on && (has_profile || stages.any(|stage| stage.profile.is_some()))
    }

    /// What policies may learn of caches and memory in it.
    #[must_use]
    pub fn measured_of_memory(&self) -> MeasuredOfMemory {
        self.contention.counters.measured(self.has_contention())
    }

    /// Requests and their locks.
    #[must_use]
    pub fn graphs(&self) -> GraphSpec {
        GraphSpec { requests: self.requests.clone(), locks: self.locks.clone() }
    }

    /// Writes out what has copies.
    pub(super) fn expand(mut self) -> Result<Scenario, SimError> {
        let workloads = self.workloads.iter().map(|spec| ("workload", &spec.name, spec.copies));
        let requests = self.requests.iter().map(|spec| ("request", &spec.name, spec.copies));
        let locks = self.locks.iter().map(|spec| ("lock", &spec.name, spec.copies));
        let all = workloads.chain(requests).chain(locks);
        if let Some((what, name, copies)) = all.into_iter().find(|(.., copies)| !(1..=COPIES).contains(copies)) {
            return Err(SimError::Scenario(format!("{what} '{name}': {copies} copies: give 1 to {COPIES}")));
        }
        self.workloads = self.workloads.into_iter().flat_map(WorkloadSpec::expand).collect();
        self.locks = self.locks.iter().flat_map(LockSpec::expand).collect();
        let workloads = self.workloads.iter().map(|spec| spec.name.as_str());
        let names: Vec<&str> = workloads.chain(self.locks.iter().map(|lock| lock.name.as_str())).collect();
        self.requests = self.requests.iter().flat_map(|request| request.expand(&names)).collect();
        Ok(self)
    }

    /// What cannot be simulated, and the fix.
    ///
    /// # Errors
    /// [`SimError::Scenario`] for the first thing at fault.
    pub fn check(&self) -> Result<(), SimError> {
        let bad = |why: String| Err(SimError::Scenario(why));
        let machine = self.machine()?;
        let online = machine.topology.all();
        if self.duration < Nanos::from_micros(1) {
            return bad(format!("a duration of {} is too short: give at least 1us", self.duration));
        }
        if self.duration + self.warm_up > Nanos::from_secs(1_000_000) {
            return bad("more than a million seconds: shorten the duration".into());
        }
        if !(1..=10_000).contains(&self.repetitions) {
            return bad(format!("{} repetitions: give 1 to 10000", self.repetitions));
        }
        self.check_stacks()?;
        self.kernel.check().or_else(bad)?;
        self.contention.check().or_else(bad)?;
        if self.workloads.is_empty() {
            return bad("nothing runs: give at least one [[workload]]".into());
        }
        let homes = homes(&online, &self.workloads, &self.vms).map_err(SimError::Scenario)?;
        let plans = Plans::new(&self.graphs(), &self.workloads).map_err(SimError::Scenario)?;
        crate::gpu::check(plans.stage_on_gpu(), machine.gpu.is_some()).map_err(SimError::Scenario)?;
        let (mut demand, mut in_vms) = (0.0, vec![0.0; self.vms.len()]);
        for (number, (spec, home)) in self.workloads.iter().zip(homes).enumerate() {
            let Some(own) = spec.load().or_else(|| plans.demand(number)) else { continue };
            demand += own;
            let there = home.map_or(online.len() as f64, |vm| self.vms[vm].most(&online));
            let cpuset = spec.cpuset.map_or(f64::INFINITY, |list| list.0.len() as f64);
            let quota = tighter(spec.quota, spec.limit).map_or(f64::INFINITY, |quota| quota.as_f64());
            let most = f64::from(spec.threads).min(there).min(cpuset).min(quota);
            if own > most {
                return bad(format!(
                    "workload '{}' asks for {own:.2} CPUs and can use {most} (threads, cpuset, quota, limit): its queue would \
                     grow without end; lower its rate",
                    spec.name
                ));
            }
            if let Some(vm) = home {
                in_vms[vm] += own;
            }
        }
        for (vm, own) in self.vms.iter().zip(in_vms) {
            let most = vm.most(&online);
            if own > most {
                return bad(format!(
                    "the open loops in VM '{}' ask for {own:.2} CPUs and it can use {most} (vCPUs, cpuset, quota, limit): \
                     work without end; lower their rates",
                    vm.name
                ));
            }
        }
        if demand > online.len() as f64 {
            let cpus = online.len();
            return bad(format!(
                "the open loops ask for {demand:.2} CPUs of {cpus}: work without end; lower their rates"
            ));
        }
        Ok(())
    }
}
