//! EEVDF's bounds on lag: how much CPU time a thread may be behind or ahead of what it is due.

use proptest::prelude::*;
use quell_model::{Class, Nanos, PreemptionMode, SchedClass, Topology};

use crate::kernel::TaskId;
use crate::weight::NICE_0;
use crate::workload::{BatchSpec, ClosedSpec, Dispatch, Service};
use crate::{Costs, KernelConfig, Sim, WorkloadSpec};

const TICK: u64 = 1_000_000;

/// A nice value and a slice, ns.
type Thread = (i8, u64);

/// What a thread may run too long: it gives way at the next tick.
const OVERRUN: u64 = TICK;

/// Threads of one group on one CPU.
fn sim(threads: &[Thread], what: WorkloadSpec, preemption: PreemptionMode, seed: u64) -> Sim {
    let config = KernelConfig { costs: Costs::FREE, tick: Nanos(TICK), preemption, ..KernelConfig::default() };
    let spec = WorkloadSpec { threads: threads.len() as u32, ..what };
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
        let entity = &kernel.tree.entities[kernel.tasks[at].entity];
        let behind = (kernel.mean(entity.queue).now() - entity.vruntime) as f64;
        (entity.queued && !entity.delayed).then(|| (at, behind * entity.weight as f64 / NICE_0 as f64))
    };
    (0..kernel.tasks.len()).filter_map(lag).collect()
}

fn threads() -> impl Strategy<Value = Vec<Thread>> {
    prop::collection::vec((-5i8..6, 100_000u64..10_000_000), 2..8)
}

fn preemption() -> impl Strategy<Value = PreemptionMode> {
    prop_oneof![Just(PreemptionMode::Full), Just(PreemptionMode::Lazy)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// While no thread comes or goes, none is further ahead or behind than its own slice, and a tick (Stoica and
    /// Abdel-Wahab 1995, Theorem 1: the client's largest request, and the quantum). A slice ends at a tick: none is shorter.
    #[test]
    fn lag_is_bounded_by_the_own_slice(threads in threads(), preemption in preemption()) {
        let batch = Some(BatchSpec::default());
        let hogs = WorkloadSpec { batch, ..WorkloadSpec::new("hogs", Class::BestEffort) };
        let mut sim = sim(&threads, hogs, preemption, 1);
        for step in 1..400u64 {
            sim.run_until(Nanos(step * 1_700_123));
            for (at, lag) in lags(&mut sim) {
                let most = (threads[at].1.max(TICK) + OVERRUN) as f64;
                prop_assert!(lag.abs() <= most, "{at} of {threads:?}: {lag}, at most {most}");
            }
        }
    }

    /// The theorem wants clients to leave without lag. Here, as in Linux, one that is behind may fall asleep: it takes its
    /// lag along, up to two slices, and the others' change by a part of it, then and when it comes back. No one is
    /// further ahead or behind than twice the longest slice of all, and a tick.
    #[test]
    fn lag_is_bounded_whoever_comes_and_goes(
        threads in threads(),
        work in 100_000u64..20_000_000,
        pause in 100_000u64..50_000_000,
        long_share in 0.0f64..1.0,
        preemption in preemption(),
        seed in any::<u64>(),
    ) {
        let closed = Some(ClosedSpec {
            clients: threads.len() as u32,
            think: Service::Bimodal { short: Nanos(1_000), long: Nanos(pause), long_share },
            pace: None,
            service: Service::Exponential(Nanos(work)),
            dispatch: Dispatch::Pool,
        });
        let clients = WorkloadSpec { closed, ..WorkloadSpec::new("clients", Class::LatencyCritical) };
        let mut sim = sim(&threads, clients, preemption, seed);
        let longest = threads.iter().map(|thread| thread.1).max().unwrap_or(0);
        let most = (2 * longest + OVERRUN) as f64;
        for step in 1..400u64 {
            sim.run_until(Nanos(step * 1_700_123));
            for (at, lag) in lags(&mut sim) {
                prop_assert!(lag.abs() <= most, "{at} of {threads:?}: {lag}, at most {most}");
            }
        }
    }
}
