//! Kinds alone: their paces, and the constants of Equation 5.1 from a solo sweep of the load.

use quell_model::Nanos;
use quell_sim::contention::Profile;
use quell_sim::contention::library;

use super::MERGED;
use super::balance::{Balances, Part};
use super::clock::nanos;
use super::queue;
use super::work::{Kind, Kinds, Profiles};
use crate::scenario::{self, HostSpec, Scenario};
use quell_cluster::predict::{Model, Predicted, Window};

const GIB: f64 = 1_073_741_824.0;
const MIB: f64 = 1_048_576.0;
/// The sweep's loads as parts of the peak.
const SWEEP: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// The load at which the threshold is the prediction (snu2020 §5.4.2: "about 75 percentile of peak throughput").
const AT_THRESHOLD: f64 = 0.75;

/// The scenario's kinds, on its first machine, and their profiles.
pub fn kinds(scenario: &Scenario) -> (Kinds, Vec<Profile>) {
    let mut profiles = Profiles::default();
    let mut all: Vec<Kind> = scenario.kind.iter().map(|kind| plain(kind, &mut profiles)).collect();
    let first = scenario.host.iter().find_map(HostSpec::simulated);
    let Some(machine) = first else { return (Kinds { all, alone: Vec::new() }, profiles.all) };
    let mut balances = Balances::new(machine.socket());
    let alone = (0..profiles.all.len())
        .map(|profile| balances.of(&profiles.all, &[Part { profile, running: 1.0, copies: 1.0 }], 0.0)[0])
        .collect();
    for kind in &mut all {
        let Some(service) = kind.service else { continue };
        let mut window = |load: f64| solo(kind, service, load, &profiles.all, &mut balances);
        let windows: Vec<Window> = SWEEP.iter().filter_map(|load| window(*load)).collect();
        let at_threshold = window(AT_THRESHOLD);
        kind.model = Model::fit(&windows);
        kind.threshold = kind.model.zip(at_threshold).and_then(|(model, window)| match model.predict(&window) {
            Predicted::Waits(wait) => Some(nanos(wait)),
            Predicted::Saturated => None,
        });
    }
    (Kinds { all, alone }, profiles.all)
}

fn plain(kind: &scenario::Kind, profiles: &mut Profiles) -> Kind {
    let seconds = |time: Nanos| time.0 as f64 / 1e9;
    let phases: Vec<_> =
        kind.phases.iter().map(|phase| (profiles.number(&phase.profile), seconds(phase.lasts), phase.load)).collect();
    let known = || library::service(&kind.phases[0].profile);
    Kind {
        name: kind.name.clone(),
        class: kind.class,
        vcpus: kind.vcpus,
        memory: (kind.memory_gib * GIB) as u64,
        dirty: kind.dirty_mib * MIB,
        movable: kind.movable,
        phases,
        rate: kind.rate,
        service: (kind.rate > 0.0).then(|| kind.service.or_else(known).map(seconds)).flatten(),
        slo: kind.slo,
        model: None,
        threshold: None,
    }
}

/// A window of the kind alone on the machine at a part of its peak load.
fn solo(kind: &Kind, service: f64, load: f64, profiles: &[Profile], balances: &mut Balances) -> Option<Window> {
    let threads = f64::from(kind.vcpus);
    let profile = kind.phases[0].0;
    let copies = if profiles[profile].shared { 1.0 } else { threads };
    let pace = balances.of(profiles, &[Part { profile, running: load * threads, copies }], 0.0)[0];
    let rate = load * threads / service;
    let times = queue::times(rate, service / pace.speed, threads)?;
    let cpu = rate * service / pace.speed;
    Some(Window { mbfr: pace.mbf * cpu, irq: rate / (1.0 + rate * MERGED), cpu, wait: times.mean })
}
