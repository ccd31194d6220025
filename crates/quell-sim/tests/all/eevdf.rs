//! What EEVDF promises: bounded lag, bounded delay, no gain by sleeping; and what quotas promise.

use proptest::prelude::*;
use quell_model::{Class, CpuCount, Nanos, PreemptionMode, Topology};
use quell_sim::workload::{BatchSpec, PeriodicSpec, Service};
use quell_sim::{Costs, KernelConfig, Sim, WorkloadSpec};

const SLICE: u64 = 3_000_000;
const TICK: u64 = 1_000_000;

fn config() -> KernelConfig {
    KernelConfig {
        costs: Costs::FREE,
        base_slice: Some(Nanos(SLICE)),
        tick: Nanos(TICK),
        preemption: PreemptionMode::Full,
        ..KernelConfig::default()
    }
}

fn hog(number: usize, weight: u32, threads: u32) -> WorkloadSpec {
    let batch = Some(BatchSpec::default());
    WorkloadSpec { weight, threads, batch, ..WorkloadSpec::new(format!("hog{number}"), Class::BestEffort) }
}

fn sim(cpus: u32, config: KernelConfig, workloads: &[WorkloadSpec]) -> Sim {
    let mut sim = Sim::new(Topology::synthetic(1, 1, cpus, 1), config, workloads, 1).unwrap();
    sim.begin();
    sim
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// At any time no thread is further from its share than a slice, rounded up to ticks, and one tick (Stoica and
    /// Abdel-Wahab 1995, Theorem 1: lag is bounded by the largest request and the quantum).
    #[test]
    fn lag_is_bounded(weights in prop::collection::vec(20u32..2000, 2..7)) {
        let hogs: Vec<WorkloadSpec> = weights.iter().enumerate().map(|(at, &weight)| hog(at, weight, 1)).collect();
        let mut sim = sim(1, config(), &hogs);
        let total: u32 = weights.iter().sum();
        let begin = 20 * SLICE * weights.len() as u64;
        sim.run_until(Nanos(begin));
        sim.end_warm_up();
        for step in 1..60u64 {
            sim.run_until(Nanos(begin + step * 7_300_000));
            let span = sim.measured().0 as f64;
            for (stats, &weight) in sim.stats().iter().zip(&weights) {
                let share = span * f64::from(weight) / f64::from(total);
                let lag = (stats.run_time as f64 - share).abs();
                // Both ends of the interval may be off by a lag.
                prop_assert!(lag <= 2.0 * (SLICE + TICK) as f64, "{lag} off after {span}, {weights:?}");
            }
        }
    }

    /// A thread that wakes up with little to do and no debt waits at most for its virtual deadline and one slice.
    #[test]
    fn delay_is_bounded(hogs in 1usize..6, work in 100_000u64..1_500_000) {
        let mut specs: Vec<WorkloadSpec> = (0..hogs).map(|at| hog(at, 100, 1)).collect();
        specs.push(WorkloadSpec {
            periodic: Some(PeriodicSpec {
                period: Nanos(SLICE * 20),
                work: Service::Constant(Nanos(work)),
                offset: Nanos(1_234_567),
                stagger: Nanos::ZERO,
                later: None,
                deadline: None,
            }),
            ..WorkloadSpec::new("sleeper", Class::LatencyCritical)
        });
        let mut sim = sim(1, config(), &specs);
        sim.run_until(Nanos::from_secs(5));
        let worst = sim.stats()[hogs].latencies.max().0;
        let bound = (SLICE + TICK) * (hogs as u64 + 1) + SLICE + TICK;
        prop_assert!(worst <= bound, "{worst} > {bound} beside {hogs}");
    }

    /// A thread that sleeps now and then gets no more than its share, and loses no more than it slept.
    #[test]
    fn sleeping_gains_nothing(work in 500_000u64..20_000_000, pause in 100_000u64..3_000_000) {
        let sleeper = WorkloadSpec {
            threads: 1,
            closed: Some(quell_sim::workload::ClosedSpec {
                clients: 1,
                think: Service::Constant(Nanos(pause)),
                pace: None,
                service: Service::Constant(Nanos(work)),
                dispatch: quell_sim::workload::Dispatch::Pool,
            }),
            ..WorkloadSpec::new("sleeper", Class::LatencyCritical)
        };
        let mut sim = sim(1, config(), &[sleeper, hog(0, 100, 1)]);
        sim.run_until(Nanos::from_secs(10));
        let got = sim.stats()[0].run_time as f64 / 10e9;
        prop_assert!(got <= 0.51, "{got} of a CPU, work {work}, pause {pause}");
    }

    /// In no window of one period does a group use more than two quotas and what its CPUs overran by a tick each; in
    /// the long run it uses its quota.
    #[test]
    fn quotas_bound_every_window(cpus in 1u32..5, threads in 1u32..9, quota in 100u32..3000) {
        let limited = WorkloadSpec { quota: Some(CpuCount(quota)), ..hog(0, 100, threads) };
        let mut sim = sim(cpus, config(), &[limited]);
        let period = 100_000_000u64;
        let mut used = Vec::new();
        for step in 0..200u64 {
            sim.run_until(Nanos(step * period / 4 + 1));
            used.push(sim.stats()[0].run_time);
        }
        let quota = u64::from(quota) * period / 1000;
        for window in used.windows(5) {
            let got = window[4] - window[0];
            prop_assert!(got <= 2 * quota + u64::from(cpus) * (TICK + 5_000_000), "{got} in a period, quota {quota}");
        }
        let most = u64::from(cpus.min(threads)) * period;
        let mean = (used[199] - used[0]) as f64 * 4.0 / 199.0;
        prop_assert!((mean / quota.min(most) as f64 - 1.0).abs() < 0.05, "{mean} a period, quota {quota}");
    }
}
