//! Latencies of simple queues against theory. The simulated kernel costs nothing here, so that what is left is queueing.

use quell_model::{Class, Nanos, SchedClass, Topology};
use quell_sim::workload::{Arrivals, Dispatch, ServerSpec, Service};
use quell_sim::{Costs, KernelConfig, Sim, WorkloadSpec};

/// Mean service time, s.
const SERVICE: f64 = 1e-3;

struct Seen {
    mean: f64,
    p99: f64,
}

/// A pool of one thread a CPU, in service times.
fn queue(servers: u32, load: f64, service: Service, seed: u64) -> Seen {
    let config = KernelConfig { costs: Costs::FREE, ..KernelConfig::default() };
    let arrivals = Arrivals::Poisson(load * f64::from(servers) / SERVICE);
    let spec = WorkloadSpec {
        threads: servers,
        // First come, first served: nothing but the request order decides.
        scheduling: SchedClass::Fifo { priority: 1 },
        server: Some(ServerSpec { arrivals, service, dispatch: Dispatch::Pool }),
        ..WorkloadSpec::new("queue", Class::LatencyCritical)
    };
    let mut sim = Sim::new(Topology::synthetic(1, 1, servers, 1), config, &[spec], seed).unwrap();
    sim.begin();
    sim.run_until(Nanos::from_secs(20));
    sim.end_warm_up();
    sim.run_until(Nanos::from_secs(420));
    let stats = &sim.stats()[0];
    let mean = stats.latencies.mean().as_secs_f64() / SERVICE;
    Seen { mean, p99: stats.latencies.quantile(0.99).as_secs_f64() / SERVICE }
}

fn assert_near(what: &str, got: f64, wanted: f64, tolerance: f64) {
    assert!((got / wanted - 1.0).abs() < tolerance, "{what}: {got:.4}, theory says {wanted:.4}");
}

fn exponential() -> Service {
    Service::Exponential(Nanos::from_millis(1))
}

/// The sojourn time in M/M/1 is exponential with mean 1 / (1 − ρ).
#[test]
fn m_m_1() {
    for load in [0.3, 0.7, 0.9] {
        let (seen, mean) = (queue(1, load, exponential(), 1), 1.0 / (1.0 - load));
        assert_near("M/M/1 mean", seen.mean, mean, if load > 0.8 { 0.06 } else { 0.02 });
        assert_near("M/M/1 p99", seen.p99, mean * std::f64::consts::LN_10 * 2.0, if load > 0.8 { 0.10 } else { 0.03 });
    }
}

/// Pollaczek and Khinchine: the mean wait is ρ / (2 (1 − ρ)) service times if these are constant.
#[test]
fn m_d_1() {
    for load in [0.3, 0.7, 0.9] {
        let seen = queue(1, load, Service::Constant(Nanos::from_millis(1)), 2);
        let tolerance = if load > 0.8 { 0.06 } else { 0.02 };
        assert_near("M/D/1 mean", seen.mean, 1.0 + load / (2.0 * (1.0 - load)), tolerance);
    }
}

/// M/G/1 with a bimodal service time: the mean wait is λ E[S²] / (2 (1 − ρ)).
#[test]
fn m_g_1() {
    let (short, long, share) = (0.5, 5.5, 0.1);
    let service = Service::Bimodal { short: Nanos(500_000), long: Nanos(5_500_000), long_share: share };
    for load in [0.3, 0.7] {
        let seen = queue(1, load, service.clone(), 3);
        let second_moment = (1.0 - share) * short * short + share * long * long;
        assert_near("M/G/1 mean", seen.mean, 1.0 + load * second_moment / (2.0 * (1.0 - load)), 0.04);
    }
}

/// Erlang's C formula.
#[test]
fn m_m_k() {
    for (servers, load) in [(4, 0.7), (4, 0.9), (16, 0.7), (16, 0.9)] {
        let seen = queue(servers, load, exponential(), 4);
        let offered = load * f64::from(servers);
        let mut term = 1.0;
        let mut sum = 1.0;
        for k in 1..servers {
            term *= offered / f64::from(k);
            sum += term;
        }
        let waits = term * offered / f64::from(servers) / (1.0 - load);
        let probability = waits / (sum + waits);
        let mean = 1.0 + probability / (f64::from(servers) * (1.0 - load));
        assert_near("M/M/k mean", seen.mean, mean, if load > 0.8 { 0.04 } else { 0.02 });
    }
}

/// Processor sharing: a thread for every request, all of equal weight on one CPU. The mean is 1 / (1 − ρ) whatever the
/// service time's distribution.
#[test]
fn m_g_1_processor_sharing() {
    let service = Service::Bimodal { short: Nanos(500_000), long: Nanos(5_500_000), long_share: 0.1 };
    let config = KernelConfig {
        costs: Costs::FREE,
        tick: Nanos::from_micros(20),
        base_slice: Some(Nanos::from_micros(20)),
        ..KernelConfig::default()
    };
    let arrivals = Arrivals::Poisson(0.7 / SERVICE);
    let spec = WorkloadSpec {
        threads: 200,
        server: Some(ServerSpec { arrivals, service, dispatch: Dispatch::Pool }),
        ..WorkloadSpec::new("queue", Class::LatencyCritical)
    };
    let mut sim = Sim::new(Topology::synthetic(1, 1, 1, 1), config, &[spec], 5).unwrap();
    sim.begin();
    sim.run_until(Nanos::from_secs(2));
    sim.end_warm_up();
    sim.run_until(Nanos::from_secs(102));
    let mean = sim.stats()[0].latencies.mean().as_secs_f64() / SERVICE;
    assert_near("processor sharing mean", mean, 1.0 / 0.3, 0.06);
}
