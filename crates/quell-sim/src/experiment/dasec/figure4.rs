//! Figure 4: an application of two threads, and another one that wants its main thread's core for two units in the middle of
//! each request. A unit is 10 ms.

use std::collections::BTreeMap;

use quell_model::{Class, CpuId, CpuSet, Nanos};

use super::{Scheduler, kernel};
use crate::kernel::TaskId;
use crate::workload::graph::{Clients, GraphSpec, RequestSpec, StageSpec, Step};
use crate::workload::{Arrivals, CpuList, Dispatch, ServerSpec, Service};
use crate::{Population, Sim, SimError, WorkloadSpec};

const UNIT: Nanos = Nanos::from_millis(10);

fn units_of(count: u64) -> Service {
    Service::Constant(Nanos(UNIT.0 * count))
}

/// Units of time that a request takes: with the two applications on equal terms, or with the main thread preferred.
///
/// # Errors
/// [`SimError::Scenario`] if the scene makes no sense.
pub fn units(preferred: bool) -> Result<f64, SimError> {
    let only = |cpu: u32| CpuList(CpuSet::one(CpuId(cpu)));
    let roles = BTreeMap::from([("helper".to_owned(), 1), ("main".to_owned(), 1)]);
    let app = WorkloadSpec {
        threads: 2,
        pool: Some(roles),
        affinity: vec![only(1), only(0)],
        ..WorkloadSpec::new("app", Class::LatencyCritical)
    };
    // It comes two units after each request begins, a unit of slack between its end and the next.
    let period = Nanos(UNIT.0 * 10);
    let times = (0..60).map(|number| Nanos(period.0 * number + UNIT.0 * 2 + 1)).collect();
    let other = WorkloadSpec {
        server: Some(ServerSpec {
            arrivals: Arrivals::Recorded(times),
            service: units_of(2),
            dispatch: Dispatch::Pool,
        }),
        affinity: vec![only(0)],
        ..WorkloadSpec::new("other", Class::LatencyCritical)
    };
    let stage = |name: &str, on: &str, after: Vec<String>, steps| StageSpec {
        name: name.into(),
        on: on.into(),
        after,
        profile: None,
        steps,
    };
    let main = vec![
        Step::Work(units_of(1)),
        Step::Signal("asked".into()),
        Step::Work(units_of(5)),
        Step::Wait(vec!["help".into()]),
    ];
    let request = RequestSpec {
        name: "request".into(),
        copies: 1,
        arrivals: Some(Arrivals::Uniform(1e9 / period.0 as f64)),
        clients: None::<Clients>,
        at_most: None,
        stages: vec![
            stage("main", "app.main", Vec::new(), main),
            stage("help", "app.helper", vec!["asked".into()], vec![Step::Work(units_of(2))]),
        ],
    };
    let workloads = [app, other];
    let graph = GraphSpec { requests: vec![request], locks: Vec::new() };
    let population = Population { workloads: &workloads, vms: &[], requests: &graph };
    let machine = quell_model::Topology::synthetic(1, 1, 2, 1);
    let mut sim = Sim::new(machine, kernel(Scheduler::Cfs), population, 1)?;
    if preferred {
        // What dasec comes to: the other waits as long as it may.
        sim.kernel.set_own_weight(TaskId(1), Some(1000));
        sim.kernel.set_weight(sim.tenants[0].group, 1000);
        sim.kernel.set_latency(TaskId(2), Some(Nanos::from_millis(100)));
    }
    sim.begin();
    sim.run_until(Nanos(period.0 * 50));
    Ok(sim.stats()[0].latencies.mean().0 as f64 / UNIT.0 as f64)
}
