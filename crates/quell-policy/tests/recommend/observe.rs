//! What an operator could find out about a scene: by looking at threads as `quell recommend` does, and at counters.

use std::collections::BTreeMap;

use quell_model::{Class, Description, Event, Nanos, Need, Plan, Policy, Signal, ThreadId, View, Wake, WorkloadId};
use quell_policy::recommend::{Contended, MachineFacts, OwnScheduler, Watch, WorkloadFacts};
use quell_sim::host::{Lending, capabilities};
use quell_sim::scenario::{CounterReport, Detail, Scenario, run_in_detail};

use crate::scene::Scene;

/// What is known of a scene.
pub struct Facts {
    pub machine: MachineFacts,
    pub workload: WorkloadFacts,
}

/// Looks, and does nothing.
#[derive(Default)]
struct Observer(BTreeMap<WorkloadId, Watch>);

const BETWEEN_LOOKS: Nanos = Nanos::from_millis(10);

impl Policy for Observer {
    fn describe(&self) -> &'static Description {
        const NEEDS: &[Need<Signal>] = &[Need::must(Signal::CriticalThreads)];
        const OBSERVER: Description = Description {
            name: "observer",
            summary: "looks, and does nothing",
            source: "",
            interval: BETWEEN_LOOKS,
            signals: NEEDS,
            knobs: &[],
            rules: &[],
            keys: &[],
            grants: false,
        };
        &OBSERVER
    }

    fn step(&mut self, view: &View, _: &[Event], _: &mut Plan) -> Wake {
        let mut threads: BTreeMap<WorkloadId, Vec<(ThreadId, Nanos, Nanos)>> = BTreeMap::new();
        let columns = &view.threads;
        for at in 0..columns.len() {
            let times = (columns.id[at], columns.run_time[at], columns.run_delay[at]);
            threads.entry(columns.workload[at]).or_default().push(times);
        }
        for (workload, threads) in threads {
            self.0.entry(workload).or_default().look(view.now, threads);
        }
        Wake::At(view.now + BETWEEN_LOOKS)
    }
}

/// The facts of a scene: of its machine, and of the service that waits most.
pub fn facts(scene: &Scene) -> Facts {
    let scenario = &scene.scenario;
    let own = match scene.has_own_scheduler() {
        true => OwnScheduler::Usable,
        false => OwnScheduler::No("this kernel has no sched_ext".into()),
    };
    let lending = |policy: &Description| match (policy.grants, scene.has_own_scheduler()) {
        (false, _) => Lending::Nothing,
        (true, true) => Lending::Scheduler,
        (true, false) => Lending::Affinity,
    };
    let machine =
        MachineFacts::new(cpus(scenario), own, |policy| capabilities(lending(policy), scenario.measured_of_memory()));
    let mut observer = Observer::default();
    let beside = run_in_detail(scenario, &mut observer, 0, Detail::Totals, |_| {}).unwrap();
    let share = |id: &WorkloadId| {
        observer.0[id].found().map_or(0.0, |looks| looks.waited.0 as f64 / (looks.ran + looks.waited).0.max(1) as f64)
    };
    let services: Vec<WorkloadId> = (0..scenario.workloads.len())
        .filter(|at| scenario.workloads[*at].class == Class::LatencyCritical)
        .map(|at| WorkloadId(at as u32))
        .filter(|id| observer.0.contains_key(id))
        .collect();
    let waits_most = services.iter().copied().max_by(|one, other| share(one).total_cmp(&share(other))).unwrap();
    let spec = &scenario.workloads[waits_most.0 as usize];
    let mut workload = WorkloadFacts {
        cpus: Some(spec.cpus),
        demand_known: Some(spec.demand.is_some()),
        batch_may_get_less: Some(scene.batch_may_get_less),
        ..WorkloadFacts::unknown(&spec.name, "", spec.class)
    };
    if let Some(mut looks) = observer.0[&waits_most].found() {
        let counted = &beside.workloads[waits_most.0 as usize];
        looks.mean_run = Some(Nanos(counted.run_time / counted.switching.sleeps.max(1)));
        println!("    {}: {looks:?}", scene.name);
        looks.write_into(&mut workload);
    }
    workload.contended = Some(Contended::Cpu);
    if scenario.has_contention() {
        let counters = |scenario: &Scenario, observed| {
            let report = scenario.report("", &[observed]);
            let of = report.workloads.into_iter().find(|other| other.name == spec.name);
            of.and_then(|of| of.counters).unwrap()
        };
        let beside = counters(scenario, beside);
        let alone = alone(scenario);
        let alone =
            counters(&alone, run_in_detail(&alone, &mut Observer::default(), 0, Detail::Totals, |_| {}).unwrap());
        workload.contended = machine.counters.then(|| contended(alone, beside));
        if !matches!(workload.contended, Some(Contended::Cpu)) {
            workload.disturbed = workload.disturbed.filter(|disturbed| *disturbed).or(workload.contended.map(|_| true));
        }
    }
    Facts { machine, workload }
}

fn cpus(scenario: &Scenario) -> u32 {
    scenario.machine().unwrap().topology.all().len() as u32
}

/// The scene without its batch work, as in a solo run.
fn alone(scenario: &Scenario) -> Scenario {
    let mut alone = scenario.clone();
    alone.workloads.retain(|workload| workload.class == Class::LatencyCritical);
    alone
}

/// Slower by this share an instruction is contended.
const SLOWER: f64 = 0.1;

fn contended(alone: CounterReport, beside: CounterReport) -> Contended {
    if beside.ipc > alone.ipc * (1.0 - SLOWER) {
        Contended::Cpu
    } else if beside.llc_hit_ratio < alone.llc_hit_ratio - 0.05 {
        Contended::Cache
    } else {
        Contended::Bandwidth
    }
}
