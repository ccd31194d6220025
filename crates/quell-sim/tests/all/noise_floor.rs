//! HIS takes nothing from a background for a service that hardly uses memory, and as much as ever where one suffers.

use quell_model::{Nanos, Plan, Stack};
use quell_policy::his::{His, HisConfig};
use quell_sim::WorkloadSpec;
use quell_sim::experiment::his;
use quell_sim::host::drive;
use quell_sim::workload::Service;

/// Xapian with the service times that its SLO in the text implies: 0.13 GB/s of 68.
fn xapian() -> WorkloadSpec {
    let mut spec = his::service("xapian").expect("it is in the library");
    let server = spec.server.as_mut().expect("it is a server");
    server.service = Service::Lognormal { mean: Nanos::from_micros(2_400), sigma: 0.2936 };
    spec
}

fn notes_of(plan: &Plan) -> usize {
    plan.notes.iter().filter(|note| note.text.contains("below the noise floor")).count()
}

/// What was seen of a foreground beside SP.
struct Seen {
    /// CPUs that SP has of its eight, by window.
    cpus: Vec<f64>,
    /// Bytes a nanosecond that the foreground moves, by window.
    moved: Vec<f64>,
    /// Notes about the noise floor.
    said: usize,
    /// The foreground's own cache ways at the end.
    ways: Option<u32>,
}

fn beside_sp(foreground: &WorkloadSpec, verify: bool, seed: u64, seconds: &[u64]) -> Seen {
    let workloads = [foreground.clone(), his::background("SP")];
    let mut host = his::host(&workloads, seed).unwrap();
    let mut policy = His::new(HisConfig { verify, ..HisConfig::default() });
    let mut stack = Stack::of_one(&mut policy, host.view());
    let (mut said, mut totals) = (0, Vec::new());
    for &second in seconds {
        drive(&mut host, &mut stack, Nanos::from_secs(second), |_, stack| {
            let layer = Some(stack.first()).filter(|layer| layer.stepped());
            said += layer.map_or(0, |layer| notes_of(&layer.plan));
        });
        let stats = host.sim().stats();
        totals.push((second as f64 * 1e9, stats[1].run_time as f64, stats[0].counted.bytes));
    }
    drop(stack);
    let windows = || totals.windows(2).map(|pair| (pair[0], pair[1]));
    let cpus = windows().map(|(from, to)| (to.1 - from.1) / (to.0 - from.0)).collect();
    let moved = windows().map(|(from, to)| (to.2 - from.2) / (to.0 - from.0)).collect();
    let seen = Seen { cpus, moved, said, ways: policy.isolation().and_then(|isolation| isolation.ways) };
    let Seen { cpus, moved, said, ways } = &seen;
    println!(
        "{}, verify {verify}, seed {seed}: SP's CPUs {cpus:.2?}, {moved:.3?} GB/s, {said} notes, ways {ways:?}",
        foreground.name
    );
    seen
}

const SECONDS: [u64; 8] = [5, 50, 60, 75, 80, 95, 120, 160];

#[test]
fn a_service_that_moves_few_bytes_is_no_victim_of_bandwidth() {
    for (seed, verify) in [(1, false), (2, false), (3, false), (1, true)] {
        let Seen { cpus, said, .. } = beside_sp(&xapian(), verify, seed, &SECONDS);
        // A solo run a minute takes a second.
        assert!(cpus.iter().all(|cpus| *cpus > 7.0), "seed {seed}, verify {verify}: {cpus:?} of 8");
        assert!(said > 0, "why it is none");
    }
}

/// Without the floor, at 5 to 50 s: 16 ways, SP on 8.00 CPUs, 4.40 GB/s; as trials SP on 6.50, 4.48 GB/s.
#[test]
fn a_program_that_suffers_is_isolated_as_before() {
    let plain = beside_sp(&his::foreground("canneal"), false, 1, &SECONDS[..2]);
    assert!(plain.ways.is_some() && plain.moved[0] < 4.5, "{:?} ways, {:?} GB/s", plain.ways, plain.moved);
    let tried = beside_sp(&his::foreground("canneal"), true, 1, &SECONDS[..2]);
    assert!(tried.moved[0] < 4.6 && tried.cpus[0] < 7.5, "{:?} CPUs, {:?} GB/s", tried.cpus, tried.moved);
}
