//! cpuset partitions: whose CPUs are whose, and who balances where.

use quell_model::{Class, CpuId, Nanos, Topology};
use quell_sim::workload::{BatchSpec, CpuList};
use quell_sim::{Costs, KernelConfig, Partition, Sim, TaskId, WorkloadSpec};

fn hogs(name: &str, threads: u32) -> WorkloadSpec {
    WorkloadSpec { threads, batch: Some(BatchSpec::default()), ..WorkloadSpec::new(name, Class::BestEffort) }
}

/// Without partitions it has the larger part of every CPU.
fn rest() -> WorkloadSpec {
    WorkloadSpec { weight: 300, ..hogs("rest", 16) }
}

fn partition(partition: Partition, cpus: &str, workload: WorkloadSpec) -> WorkloadSpec {
    WorkloadSpec { cpuset: Some(CpuList(cpus.parse().unwrap())), partition, ..workload }
}

/// Ten seconds of these on four CPUs.
fn run(workloads: &[WorkloadSpec]) -> Sim {
    let config = KernelConfig { costs: Costs::FREE, ..KernelConfig::default() };
    let mut sim = Sim::new(Topology::synthetic(1, 1, 4, 1), config, workloads, 1).unwrap();
    sim.begin();
    sim.run_until(Nanos::from_secs(10));
    sim
}

fn cpus_of(sim: &Sim) -> Vec<f64> {
    sim.stats().iter().map(|stats| stats.run_time as f64 / 1e10).collect()
}

#[test]
fn the_cpus_of_a_partition_leave_the_others_sets() {
    let workloads = |is: Partition| [partition(is, "0-1", hogs("own", 2)), rest()];
    let member = cpus_of(&run(&workloads(Partition::Member)));
    assert!(member[0] < 1.5, "{member:?}");
    for is in [Partition::Root, Partition::Isolated] {
        let own = cpus_of(&run(&workloads(is)));
        assert!((own[0] - 2.0).abs() < 0.01 && (own[1] - 2.0).abs() < 0.01, "{is:?}: {own:?}");
    }
    // They are its own although it leaves one idle.
    let wasted = cpus_of(&run(&[partition(Partition::Root, "0-1", hogs("own", 1)), rest()]));
    assert!((wasted[1] - 2.0).abs() < 0.01, "{wasted:?}");
}

#[test]
fn nobody_balances_isolated_cpus() {
    // Three threads on two CPUs: balanced they have about the same, else one has a CPU alone.
    let shares = |is: Partition| {
        let sim = run(&[partition(is, "0-1", hogs("own", 3)), hogs("rest", 3)]);
        let mut shares: Vec<f64> = (0..3).map(|task| sim.kernel().run_time(TaskId(task)) as f64 / 1e10).collect();
        shares.sort_by(f64::total_cmp);
        (shares, sim.counters().balanced)
    };
    let (root, moved) = shares(Partition::Root);
    assert!(root[0] > 0.58 && root[2] < 0.85 && moved > 10, "{root:?}, {moved} moved");
    let (isolated, _) = shares(Partition::Isolated);
    assert!(isolated[1] < 0.51 && isolated[2] > 0.99, "{isolated:?}");
}

#[test]
fn a_partition_that_ends_gives_its_cpus_back() {
    use quell_model::{Host, Knob, KnobSetting, Plan, Target, WorkloadId};
    let workloads = [hogs("own", 2), rest()];
    let config = KernelConfig { costs: Costs::FREE, ..KernelConfig::default() };
    let mut host = quell_sim::SimHost::new(Topology::synthetic(1, 1, 4, 1), config, &workloads, 1, false).unwrap();
    let mut turn = |knobs: &[Knob]| {
        let target = Target::Workload(WorkloadId(0));
        let plan = Plan { knobs: knobs.iter().map(|&knob| KnobSetting { target, knob }).collect(), ..Plan::default() };
        let Ok(()) = host.apply(&plan, &mut Vec::new());
        let before = host.sim().stats()[1].run_time;
        let until = host.sim().now() + Nanos::from_secs(5);
        while host.sim().now() < until {
            let Ok(()) = host.observe(Default::default(), &mut host.view(), &mut Vec::new());
            let Ok(()) = host.wait(quell_model::Wake::At(until));
        }
        let foreign = (2..18).filter(|&task| {
            let runs_on = |cpu: u32| host.sim().kernel().running_on(CpuId(cpu)) == Some(TaskId(task));
            runs_on(0) || runs_on(1)
        });
        ((host.sim().stats()[1].run_time - before) as f64 / 5e9, foreign.count())
    };
    let (rest, foreign) = turn(&[Knob::Cpus("0-1".parse().unwrap()), Knob::Partition(true)]);
    assert!((rest - 2.0).abs() < 0.02 && foreign == 0, "{rest}, {foreign}");
    let (rest, _) = turn(&[Knob::Partition(false)]);
    assert!(rest > 2.5, "{rest}");
}
