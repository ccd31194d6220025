//! One run: a scenario under a policy, from a seed.

use quell_model::{BytesPerSecond, Nanos, Policy, Stack};

use super::interval::Block;
use super::remarks::Remarks;
use super::watch::Watch;
use super::{Course, Detail, Remark, Report, Scenario};
use crate::host::{PolicyCosts, drive};
use crate::kernel::Counters;
use crate::vm::VmStats;
use crate::workload::WorkloadStats;
use crate::{Population, SimError, SimHost};

/// What one run showed.
#[derive(Clone, Debug)]
pub struct Observed {
    /// By workload.
    pub workloads: Vec<WorkloadStats>,
    /// By VM.
    pub vms: Vec<VmStats>,
    /// Length of the measured part.
    pub measured: Nanos,
    /// The part of all CPUs' time in which they were busy, 0–1.
    pub utilisation: f64,
    /// Memory bandwidth in use; none where contention is not modelled.
    pub bandwidth: Option<BytesPerSecond>,
    /// What the kernel did.
    pub counters: Counters,
    /// What the policy cost.
    pub policy_costs: PolicyCosts,
    /// By workload: latencies in blocks of time; empty if they were not kept.
    pub blocks: Vec<Vec<Block>>,
    /// The course of time, if it was kept.
    pub course: Option<Course>,
    /// What the policy said, and what it was refused, from the beginning.
    pub remarks: Vec<Remark>,
}

/// Runs a scenario's repetition (counted from 0) under a policy. `seen` hears the simulated time now and then.
///
/// # Errors
/// [`SimError::Scenario`] if the scenario makes no sense.
pub fn run<P: Policy + ?Sized>(
    scenario: &Scenario,
    policy: &mut P,
    repetition: u32,
    seen: impl FnMut(Nanos),
) -> Result<Observed, SimError> {
    run_in_detail(scenario, policy, repetition, Detail::Totals, seen)
}

/// The same, and keeps more of it. What happens is the same.
///
/// # Errors
/// [`SimError::Scenario`] if the scenario makes no sense.
pub fn run_in_detail<P: Policy + ?Sized>(
    scenario: &Scenario,
    policy: &mut P,
    repetition: u32,
    detail: Detail,
    mut seen: impl FnMut(Nanos),
) -> Result<Observed, SimError> {
    scenario.check()?;
    let seed = scenario.seed.wrapping_add(u64::from(repetition));
    let grants = policy.describe().grants;
    let machine = scenario.machine()?;
    let (kernel, workloads) = (scenario.kernel.clone(), &scenario.workloads);
    let requests = scenario.graphs();
    let population = Population { workloads, vms: &scenario.vms, requests: &requests };
    let mut host = SimHost::new(machine, kernel, population, seed, grants)?;
    let mut stack = Stack::of_one(policy, host.view());
    let mut remarks = Remarks::default();
    let mut look = |host: &SimHost, stack: &Stack<&mut P>| {
        stack.stepped().for_each(|layer| remarks.hear(host, stack.view().now, layer));
        seen(host.sim().now());
    };
    drive(&mut host, &mut stack, scenario.warm_up, &mut look);
    host.end_warm_up();
    let names: Vec<&str> = scenario.workloads.iter().map(|workload| workload.name.as_str()).collect();
    let end = scenario.warm_up + scenario.duration;
    let watch = Watch::new(&mut host, &names, end, grants, detail);
    host.begin_watch(watch);
    drive(&mut host, &mut stack, end, &mut look);
    let (course, blocks) = host.end_watch().map(Watch::end).unwrap_or_default();
    let sim = host.sim();
    Ok(Observed {
        workloads: sim.stats(),
        vms: sim.vm_stats(),
        measured: sim.measured(),
        utilisation: sim.utilisation(),
        bandwidth: sim.bandwidth(),
        counters: sim.counters(),
        policy_costs: host.policy_costs(),
        blocks,
        course,
        remarks: remarks.end(),
    })
}

impl Scenario {
    /// What all repetitions under one policy showed together.
    #[must_use]
    pub fn report(&self, policy: &str, runs: &[Observed]) -> Report {
        Report::new(self, policy, runs)
    }
}
