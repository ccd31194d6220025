//! Searches as trials, on the simulated device.

use std::collections::BTreeMap;

use quell_model::trial::{Finding, Judge, Then};

use super::*;

fn verified() -> Scene {
    Scene::new(jetson(), EdgeIso::new(EdgeIsoConfig { verify: true, ..EdgeIsoConfig::default() }))
}

/// A service of requests, which reports its latency.
fn served(scene: &mut Scene, name: &str, profile: &str) -> WorkloadId {
    let server = WorkloadSpec::lc(name, CpuCount::whole(1)).serving(2, Arrivals::Poisson(600.0), millis(1));
    let slo = Some(Slo { quantile: 0.99, bound: millis(20) });
    scene.host.attach(&WorkloadSpec { profile: known(profile), pausable: true, slo, ..server }).unwrap()
}

/// Each trial begins once and ends once, and what is undone has its value from before.
fn assert_told(scene: &Scene) {
    let mut open = BTreeMap::new();
    for trial in &scene.trials {
        match trial.then {
            Then::Going => assert!(open.insert(trial.number, *trial).is_none(), "{trial:?}"),
            Then::Again => assert!(open.contains_key(&trial.number), "{trial:?}"),
            Then::Kept | Then::Undone => {
                let began = open.remove(&trial.number).unwrap_or_else(|| panic!("it never began: {trial:?}"));
                assert_eq!((began.victim, began.knob, began.from), (trial.victim, trial.knob, trial.from));
                assert!(trial.then == Then::Kept || trial.to == trial.from, "{trial:?}");
            }
        }
    }
    let running = scene.policy().trial().map(|trial| trial.number);
    assert!(open.keys().all(|number| Some(*number) == running), "{open:?}");
}

#[test]
fn every_search_is_a_trial_with_an_end_and_what_failed_twice_is_left_alone() {
    let mut ends = 0;
    for (service, batch) in [("memcached", "streaming"), ("streaming", "streaming"), ("computing", "streaming")] {
        let mut scene = verified();
        scene.service("service", 2, service);
        scene.batch(2, batch);
        scene.run(secs(120));
        assert_told(&scene);
        let failed = |trial: &&quell_model::Trial| trial.then == Then::Undone && trial.expected < 0.0;
        let mut by_knob = BTreeMap::new();
        for trial in scene.trials.iter().filter(failed) {
            *by_knob.entry((trial.knob, trial.resource as u8, trial.on)).or_insert(0) += 1;
        }
        assert!(by_knob.values().all(|times| *times <= 2), "{service}: {by_knob:?} {:#?}", scene.trials);
        ends += scene.trials.iter().filter(|trial| trial.then != Then::Going).count();
        // What nothing was kept of is not in force.
        let kept = scene.trials.iter().any(|trial| trial.then == Then::Kept);
        let uses = Technique::ALL.iter().any(|technique| scene.policy().isolation().uses(*technique));
        assert!(kept || !uses || scene.policy().trial().is_some(), "{service}: {:?}", scene.policy().isolation());
    }
    assert!(ends > 3, "{ends}");
}

#[test]
fn a_latency_that_is_reported_is_what_trials_are_judged_by() {
    let mut scene = verified();
    served(&mut scene, "served", "memcached");
    scene.batch(2, "streaming");
    scene.run(secs(60));
    assert_told(&scene);
    assert!(!scene.trials.is_empty());
    for trial in &scene.trials {
        assert_eq!(trial.judge, Judge::Latency, "{trial:?}");
        assert!(trial.before.count >= 3, "{trial:?}");
        assert!(matches!(trial.finding, Finding::Begun | Finding::Unclear) || trial.after.count >= 1, "{trial:?}");
    }
}

#[test]
fn a_knob_that_refuses_in_the_middle_of_a_search_leaves_nothing_of_it() {
    let mut scene = verified();
    scene.service("service", 2, "memcached");
    let batch = scene.batch(2, "streaming");
    let until = secs(40);
    while scene.policy().trial().is_none() && scene.host.now() < until {
        scene.run(millis(50));
    }
    scene.run(millis(500));
    assert!(scene.policy().trial().is_some(), "a search takes longer: {:?}", scene.trials);
    scene.host.faults.knobs_refused = 1.0;
    scene.run(secs(10));
    scene.host.faults.knobs_refused = 0.0;
    scene.host.faults.without = Some(KnobKind::GpuFrequencyKhz);
    scene.run(secs(3));
    assert!(scene.trials.iter().any(|trial| trial.finding == Finding::Refused), "{:#?}", scene.trials);
    assert_told(&scene);
    let share = *scene.policy().isolation().of(batch).unwrap();
    assert!(share.throttled == 0 || scene.policy().trial().is_some(), "{share:?} {:#?}", scene.trials);
}

#[test]
fn a_victim_that_dies_and_counters_that_vanish_end_the_trial() {
    let mut scene = verified();
    let services = [scene.service("one", 1, "memcached"), scene.service("two", 1, "memcached")];
    scene.batch(2, "streaming");
    while scene.policy().trial().is_none() && scene.host.now() < secs(60) {
        scene.run(millis(50));
    }
    let victim = scene.policy().trial().expect("a trial").victim;
    scene.host.detach(victim);
    scene.run(millis(500));
    assert!(scene.policy().trial().is_none_or(|trial| trial.victim != victim));
    assert_eq!(scene.trials.last().map(|trial| trial.finding), Some(Finding::Overtaken));
    let other = if victim == services[0] { services[1] } else { services[0] };
    while scene.policy().trial().is_none() && scene.host.now() < secs(120) {
        scene.run(millis(50));
    }
    assert_eq!(scene.policy().trial().map(|trial| trial.victim), Some(other));
    scene.host.withhold(SignalSet::of(Signal::ALL));
    scene.run(secs(60));
    assert_told(&scene);
    assert!(scene.policy().trial().is_none(), "{:?}", scene.policy().trial());
    let uses = Technique::ALL.iter().any(|technique| scene.policy().isolation().uses(*technique));
    let kept = scene.trials.iter().any(|trial| trial.then == Then::Kept);
    assert!(!uses || kept, "{:#?}", scene.trials);
}

#[test]
fn without_any_knob_it_holds() {
    let mut scene = verified();
    scene.service("service", 2, "memcached");
    scene.batch(2, "streaming");
    scene.host.faults.knobs_refused = 1.0;
    scene.run(secs(60));
    assert_told(&scene);
    assert!(scene.trials.iter().all(|trial| trial.then != Then::Kept));
}

#[test]
fn what_is_lifted_to_look_again_has_an_end() {
    let machine = Machine::from(quell_model::Topology::synthetic(1, 1, 4, 1));
    let mut scene = Scene::new(machine, EdgeIso::new(EdgeIsoConfig::default()));
    scene.host.limit_leases(LeaseLimits::default());
    let service = WorkloadSpec::lc("service", CpuCount::whole(2)).busy(2);
    scene.host.attach(&WorkloadSpec { profile: known("memcached"), ..service }).unwrap();
    scene.batch(2, "streaming");
    scene.run(secs(60));
    assert_told(&scene);
    let last = scene.trials.last().unwrap();
    let policy = scene.policy();
    assert!(last.then != Then::Going, "{last:?} {:?}", policy.knobs);
}
