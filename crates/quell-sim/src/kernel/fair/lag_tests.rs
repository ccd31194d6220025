//! EEVDF's bound on lag, while threads of random weights and slices come and go.

use proptest::prelude::*;
use quell_model::{Class, Nanos, PreemptionMode, SchedClass, Topology};

use crate::kernel::TaskId;
use crate::kernel::weight::NICE_0;
use crate::workload::{ClosedSpec, Dispatch, Service};
use crate::{Costs, KernelConfig, Sim, WorkloadSpec};

const TICK: u64 = 1_000_000;

/// Threads of one group on one CPU that work and sleep by turns.
fn coming_and_going(threads: &[(i8, u64)], work: u64, pause: u64, often: f64, mode: PreemptionMode, seed: u64) -> Sim {
    let config = KernelConfig { costs: Costs::FREE, tick: Nanos(TICK), preemption: mode, ..KernelConfig::default() };
    let closed = ClosedSpec {
        clients: threads.len() as u32,
        think: Service::Bimodal { short: Nanos(1_000), long: Nanos(pause), long_share: often },
        service: Service::Exponential(Nanos(work)),
        dispatch: Dispatch::Pool,
    };
    let spec = WorkloadSpec {
        threads: threads.len() as u32,
        closed: Some(closed),
        ..WorkloadSpec::new("all", Class::LatencyCritical)
    };
    let mut sim = Sim::new(Topology::synthetic(1, 1, 1, 1), config, &[spec], seed).unwrap();
    for (at, &(nice, slice)) in threads.iter().enumerate() {
        sim.kernel.set_class(TaskId(at as u32), SchedClass::Fair { nice, slice: Some(Nanos(slice)) });
    }
    sim.begin();
    sim
}

/// By thread that competes: how much CPU time it is behind (above 0) or ahead of what it is due, ns.
fn lags(sim: &mut Sim) -> Vec<(usize, f64)> {
    sim.kernel.account(0);
    let kernel = &sim.kernel;
    let lag = |at: usize| {
        let entity = &kernel.entities[kernel.tasks[at].entity];
        let behind = (kernel.mean(entity.queue).now() - entity.vruntime) as f64;
        (entity.queued && !entity.delayed).then(|| (at, behind * entity.weight as f64 / NICE_0 as f64))
    };
    (0..kernel.tasks.len()).filter_map(lag).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn lag_is_bounded_whoever_comes_and_goes(
        threads in prop::collection::vec((-5i8..6, 100_000u64..10_000_000), 2..8),
        work in 100_000u64..20_000_000,
        pause in 100_000u64..50_000_000,
        often in 0.0f64..1.0,
        full in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mode = if full { PreemptionMode::Full } else { PreemptionMode::Lazy };
        let mut sim = coming_and_going(&threads, work, pause, often, mode, seed);
        let longest = threads.iter().map(|thread| thread.1).max().unwrap_or(0);
        for step in 1..400u64 {
            sim.run_until(Nanos(step * 1_700_123));
            for (at, lag) in lags(&mut sim) {
                let ahead = (threads[at].1 + TICK) as f64;
                let behind = (longest + TICK) as f64;
                prop_assert!((-ahead..=behind).contains(&lag), "{at} of {threads:?}: {lag}, at most {ahead} ahead, {behind} behind");
            }
        }
    }
}
