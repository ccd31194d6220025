//! One run: a scenario under a policy, from a seed.

use quell_model::{BytesPerSecond, Layer, Nanos, Policy, Stack, WorkloadId};

use super::interval::Block;
use super::remarks::Remarks;
use super::watch::Watch;
use super::{Course, Detail, Remark, Scenario};
use crate::host::{Lending, PolicyCosts, drive};
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

/// What a scenario runs under: policies, first to last, each with the names of the workloads that it owns (None: all), and
/// what lends CPUs to workloads.
#[derive(Clone, Debug)]
pub struct Treatment<P> {
    /// The policies.
    pub policies: Vec<(P, Option<Vec<String>>)>,
    /// What lends CPUs.
    pub lending: Lending,
}

impl<P: Policy> Treatment<P> {
    /// One policy, on Quell's own scheduler if it grants CPUs.
    #[must_use]
    pub fn of_one(policy: P) -> Treatment<P> {
        let lending = policy.describe().grants.into();
        Treatment { policies: vec![(policy, None)], lending }
    }

    fn layers(self, host: &SimHost) -> Result<Vec<Layer<P>>, SimError> {
        let ids = |names: Vec<String>| {
            let id = |name: String| match host.number_of(&name) {
                Some(number) => Ok(WorkloadId(number as u32)),
                None => Err(SimError::Scenario(format!("a policy owns '{name}': there is no such workload"))),
            };
            names.into_iter().map(id).collect::<Result<Vec<_>, _>>()
        };
        self.policies.into_iter().map(|(policy, names)| Ok(Layer::new(policy, names.map(ids).transpose()?))).collect()
    }
}

/// A run that has not begun yet.
#[derive(Debug)]
pub struct Run<'a, P> {
    scenario: &'a Scenario,
    host: SimHost,
    stack: Stack<P>,
    lending: Lending,
}

impl<'a, P: Policy> Run<'a, P> {
    /// A scenario's repetition (counted from 0) under a treatment.
    ///
    /// # Errors
    /// [`SimError::Scenario`] if the scenario makes no sense, two policies would set the same, or a workload would never run.
    pub fn new(scenario: &'a Scenario, treatment: Treatment<P>, repetition: u32) -> Result<Run<'a, P>, SimError> {
        scenario.check()?;
        let seed = scenario.seed.wrapping_add(u64::from(repetition));
        let machine = scenario.machine()?;
        let (kernel, workloads) = (scenario.kernel.clone(), &scenario.workloads);
        let requests = scenario.graphs();
        let population = Population { workloads, vms: &scenario.vms, requests: &requests };
        let lending = treatment.lending;
        let mut host = SimHost::new(machine, kernel, population, seed, lending)?;
        host.limit_leases(scenario.solo_runs);
        let layers = treatment.layers(&host)?;
        let granting = || layers.iter().filter(|layer| layer.policy.describe().grants);
        let granted: Option<Vec<WorkloadId>> =
            granting().map(|layer| layer.workloads.clone()).collect::<Option<Vec<_>>>().map(|owned| owned.concat());
        match lending {
            Lending::Nothing => {}
            Lending::Affinity => host.lend_by_affinity(granted),
            Lending::Scheduler => host.check_all_hold(&layers)?,
        }
        let names: Vec<&str> = layers.iter().map(|layer| layer.policy.describe().name).collect();
        let pool = host.sim().kernel().topology.all();
        let stack = Stack::new(layers, host.view(), pool).map_err(|clash| {
            let on = clash.overlap.workload.and_then(|id| host.name_of(id)).unwrap_or("every workload");
            let what = clash.overlap.what;
            let (first, second) = (names[clash.first], names[clash.second]);
            SimError::Scenario(format!(
                "the policies '{first}' and '{second}' of a stack would both set {what} on {on}: give them different \
                 `workloads`"
            ))
        })?;
        Ok(Run { scenario, host, stack, lending })
    }

    /// The stack, before its first turn.
    #[must_use]
    pub fn stack(&self) -> &Stack<P> {
        &self.stack
    }

    /// Runs to the end; `seen` is called for each turn.
    pub fn finish(self, detail: Detail, mut seen: impl FnMut(&Stack<P>)) -> Observed {
        let Run { scenario, mut host, mut stack, lending } = self;
        let mut remarks = Remarks::default();
        let mut look = |host: &SimHost, stack: &Stack<P>| {
            stack.stepped().for_each(|layer| remarks.collect(host, stack.view().now, layer));
            seen(stack);
        };
        drive(&mut host, &mut stack, scenario.warm_up, &mut look);
        host.end_warm_up();
        let names: Vec<&str> = scenario.workloads.iter().map(|workload| workload.name.as_str()).collect();
        let end = scenario.warm_up + scenario.duration;
        let watch = Watch::new(&mut host, &names, end, lending != Lending::Nothing, detail);
        host.begin_watch(watch);
        drive(&mut host, &mut stack, end, &mut look);
        let (course, blocks) = host.end_watch().map(Watch::end).unwrap_or_default();
        let sim = host.sim();
        Observed {
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
        }
    }
}

/// Runs a scenario's repetition (counted from 0) under a policy. `seen` receives the simulated time now and then.
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
    let run = Run::new(scenario, Treatment::of_one(policy), repetition)?;
    Ok(run.finish(detail, |stack| seen(stack.view().now)))
}
