//! By which loads a group's weight is spread over the CPUs.

use quell_model::{Class, Host, Knob, KnobSetting, Nanos, Plan, Target, Topology, WorkloadId};
use quell_sim::workload::{BatchSpec, CpuList};
use quell_sim::{Costs, FairScheduler, KernelConfig, Loads, Sim, SimHost, WorkloadSpec};

fn config(loads: Loads, fair: FairScheduler) -> KernelConfig {
    KernelConfig { loads, fair, costs: Costs::FREE, ..KernelConfig::default() }
}

fn hog(name: &str, weight: u32, cpus: &[&str]) -> WorkloadSpec {
    let affinity: Vec<CpuList> = cpus.iter().map(|cpu| CpuList(cpu.parse().unwrap())).collect();
    let (threads, batch) = (affinity.len() as u32, Some(BatchSpec::default()));
    WorkloadSpec { weight, threads, affinity, batch, ..WorkloadSpec::new(name, Class::BestEffort) }
}

/// In the long run a constant load is its average: shares are the same.
#[test]
fn steady_loads_have_the_same_shares_either_way() {
    for fair in [FairScheduler::Eevdf, FairScheduler::Cfs] {
        let workloads = [hog("T", 100, &["0"]), hog("N", 200, &["0", "1", "2"]), hog("M", 50, &["1"])];
        let shares = [Loads::Present, Loads::Decaying].map(|loads| {
            let mut sim = Sim::new(Topology::synthetic(1, 1, 3, 1), config(loads, fair), &workloads, 1).unwrap();
            sim.begin();
            sim.run_until(Nanos::from_secs(2));
            sim.end_warm_up();
            sim.run_until(Nanos::from_secs(12));
            sim.stats().iter().map(|stats| stats.run_time as f64 / 1e10).collect::<Vec<f64>>()
        });
        for (present, decaying) in shares[0].iter().zip(&shares[1]) {
            assert!((present / decaying - 1.0).abs() < 0.01, "{fair:?}: {shares:?}");
        }
        assert!((shares[1][0] - 0.6).abs() < 0.01, "rKube's Figure 3a: {shares:?}");
    }
}

/// A thread that comes to another CPU has its whole group's weight there at once, or what is left beside the average
/// that fades where it was: a third of the CPU at first, half of it later.
#[test]
fn a_decaying_load_stays_behind_for_a_while() {
    let share_after_moving = |loads: Loads| {
        let workloads = [hog("moves", 100, &["0"]), hog("stays", 100, &["1"])];
        let config = config(loads, FairScheduler::Eevdf);
        let mut host = SimHost::new(Topology::synthetic(1, 1, 2, 1), config, &workloads, 1, false).unwrap();
        let mut run = |until: Nanos| {
            while host.sim().now() < until {
                let Ok(()) = host.observe(Default::default(), &mut host.view(), &mut Vec::new());
                let Ok(()) = host.wait(quell_model::Wake::At(until));
            }
            let now = host.sim().stats()[0].run_time;
            if until == Nanos::from_secs(1) {
                let cpus = Knob::Cpus("1".parse().unwrap());
                let mut plan = Plan::default();
                plan.knobs.push(KnobSetting { target: Target::Workload(WorkloadId(0)), knob: cpus });
                let Ok(()) = host.apply(&plan, &mut Vec::new());
            }
            now as f64
        };
        let moved = run(Nanos::from_secs(1));
        let soon = run(Nanos::from_millis(1_040));
        let (late, end) = (run(Nanos::from_millis(2_000)), run(Nanos::from_millis(3_000)));
        ((soon - moved) / 40e6, (end - late) / 1e9)
    };
    let (soon, late) = share_after_moving(Loads::Present);
    assert!((soon - 0.5).abs() < 0.06 && (late - 0.5).abs() < 0.01, "{soon} {late}");
    let (soon, late) = share_after_moving(Loads::Decaying);
    assert!((0.28..0.43).contains(&soon) && (late - 0.5).abs() < 0.01, "{soon} {late}");
}
