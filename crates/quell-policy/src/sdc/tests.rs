use std::sync::Arc;

use quell_model::{Class, CpuCount, Outcome, Part, Sample, ThreadId, Topology, Verdict, Workload, WorkloadId};

use super::*;

/// Workloads by name, class, requested CPUs and intensity of the threshold.
type Of = (&'static str, Class, u32, f64);

const LC: Class = Class::LatencyCritical;
const BE: Class = Class::BestEffort;

fn view(cores: u32, now: u64, of: &[Of]) -> View {
    let mut view = View::new(Topology::synthetic(1, 1, cores, 1).into());
    view.now = Nanos::from_secs(now);
    for (name, class, cpus, intensity) in of {
        view.workloads.spec.push(Some(Arc::new(Workload::new(*name, *class, CpuCount::whole(*cpus)))));
        let cpus = f64::from((*cpus).max(1));
        let ran = Nanos((cpus * view.now.0 as f64) as u64);
        view.workloads.run_time.push(Sample::exact(ran, view.now));
        view.workloads.buffer_full_rate.push(Sample::exact(intensity * 1e4 * cpus, view.now));
    }
    view
}

fn step(policy: &mut SdcLocal, view: &View, number: u64) -> Plan {
    let mut plan = Plan::default();
    plan.begin(number);
    let applied = Verdict::Applied(Nanos::ZERO);
    let last = Event::Outcome(Outcome { plan: number.wrapping_sub(1), part: Part::Knobs, verdict: applied });
    policy.step(view, &[last], &mut plan);
    plan
}

fn cpus(policy: &SdcLocal, id: u32) -> String {
    match policy.knobs.settled(Target::Workload(WorkloadId(id)), KnobKind::Cpus) {
        Some(Knob::Cpus(cpus)) => cpus.to_string(),
        other => panic!("{other:?}"),
    }
}

/// A service of two vCPUs beside six memory-intensive and six other VMs, as in §5.5.2.
fn thirteen() -> Vec<Of> {
    let mut all = vec![("memcached", LC, 2, 0.2)];
    all.extend([("lbm", BE, 1, 5.0); 6]);
    all.extend([("sjeng", BE, 1, 0.01); 6]);
    all
}

#[test]
fn a_service_has_cores_of_its_own_and_memory_work_half_as_many_as_it_is() {
    let mut policy = SdcLocal::new(SdcLocalConfig::default());
    let all = thirteen();
    step(&mut policy, &view(8, 15, &all), 1);
    let plan = step(&mut policy, &view(8, 30, &all), 2);
    assert!(plan.knobs.is_empty(), "unchanged assignments send no command: {:?}", plan.knobs);
    assert_eq!(cpus(&policy, 0), "0-1");
    let of = |ids: std::ops::Range<u32>| ids.map(|id| cpus(&policy, id)).collect::<Vec<_>>().join(" ");
    assert_eq!(of(1..7), "5 6 7 5 6 7");
    assert_eq!(of(7..13), "2 3 4 2 3 4");
}

#[test]
fn what_becomes_memory_intensive_moves_and_stays_until_it_is_clearly_not() {
    let mut policy = SdcLocal::new(SdcLocalConfig::default());
    let mut all = vec![("a", BE, 1, 0.1), ("b", BE, 1, 0.1)];
    step(&mut policy, &view(4, 15, &all), 1);
    step(&mut policy, &view(4, 30, &all), 2);
    assert_eq!((cpus(&policy, 0), cpus(&policy, 1)), ("0".into(), "1".into()));
    for (time, intensity, kind) in [(45, 1.1, Kind::Memory), (60, 0.6, Kind::Memory), (75, 0.4, Kind::Other)] {
        all[0].3 = intensity;
        step(&mut policy, &view(4, time, &all), time);
        step(&mut policy, &view(4, time, &all), time + 1);
        assert_eq!(policy.units[0].kind, kind, "at {intensity}");
        assert_eq!(cpus(&policy, 0), "3", "as one of the others it may stay");
    }
}

#[test]
fn services_share_among_themselves_where_cores_run_out_and_it_is_said() {
    let mut policy = SdcLocal::new(SdcLocalConfig::default());
    let all = [("a", LC, 2, 0.0), ("b", LC, 2, 0.0), ("batch", BE, 1, 5.0)];
    let plan = step(&mut policy, &view(4, 15, &all), 1);
    let reported: Vec<_> = plan.notes.iter().filter(|note| note.kind == NoteKind::Refused).collect();
    assert!(
        reported.len() == 1 && reported[0].text.contains("4 cores") && reported[0].text.contains("3 are there"),
        "{reported:?}"
    );
    step(&mut policy, &view(4, 30, &all), 2);
    assert_eq!((cpus(&policy, 0), cpus(&policy, 1), cpus(&policy, 2)), ("0-1".into(), "0,2".into(), "3".into()));
}

#[test]
fn two_units_of_a_service_share_a_core_of_two_hyperthreads() {
    let mut policy = SdcLocal::new(SdcLocalConfig::default());
    let mut view = view(4, 15, &[("a", LC, 3, 0.0), ("b", LC, 1, 0.0), ("batch", BE, 8, 0.0)]);
    view.topology = Topology::synthetic(1, 1, 4, 2).into();
    view.cpus.online = view.topology.all();
    view.scope.pool = view.topology.all();
    step(&mut policy, &view, 1);
    view.now = Nanos::from_secs(30);
    step(&mut policy, &view, 2);
    let cores = |id| match policy.knobs.settled(Target::Workload(WorkloadId(id)), KnobKind::Cpus) {
        Some(Knob::Cpus(cpus)) => view.topology.cores().iter().filter(|core| core.is_subset(&cpus)).count(),
        other => panic!("{other:?}"),
    };
    assert_eq!([cores(0), cores(1), cores(2)], [2, 1, 1]);
}

#[test]
fn the_algorithm_prefers_few_units_and_then_the_higher_intensity() {
    let unit = |id, kind, intensity| Unit { workload: WorkloadId(id), thread: None, kind, intensity, core: 0 };
    // Four on two cores: the third finds one unit on each and goes to the more intensive one.
    let mut units = [9.0, 1.0, 1.0, 1.0].map(|intensity| unit(0, Kind::Memory, intensity));
    let division = Division::of(&units, 8, 1, 1);
    assert_eq!((division.dedicated, division.memory), (0, 2));
    place::assign(&mut units, &division, &[], &mut Buffers::default());
    assert_eq!(units.map(|unit| unit.core), [6, 7, 6, 7]);
    let mut reversed = [1.0, 9.0, 1.0, 1.0].map(|intensity| unit(0, Kind::Memory, intensity));
    place::assign(&mut reversed, &division, &[], &mut Buffers::default());
    assert_eq!(reversed.map(|unit| unit.core), [6, 7, 7, 6]);
}

#[test]
fn threads_are_bound_one_by_one_where_they_are_vcpus() {
    let config = SdcLocalConfig { pins: Pins::Threads, ..SdcLocalConfig::default() };
    let mut policy = SdcLocal::new(config);
    let mut view = view(4, 15, &[("vm", LC, 0, 0.0), ("batch", BE, 1, 0.0)]);
    for (tid, of) in [(11, 0), (10, 0), (20, 1)] {
        view.threads.id.push(ThreadId { tid, start: 1 });
        view.threads.workload.push(WorkloadId(of));
    }
    let plan = step(&mut policy, &view, 1);
    let mut bound: Vec<_> = plan
        .knobs
        .iter()
        .map(|setting| match (setting.target, setting.knob) {
            (Target::Thread(thread), Knob::Cpus(cpus)) => (thread.tid, cpus.to_string()),
            other => panic!("{other:?}"),
        })
        .collect();
    bound.sort();
    assert_eq!(bound, [(10, "0".into()), (11, "1".into()), (20, "2".into())]);
}

#[test]
fn without_counts_it_says_so_and_still_keeps_services_apart() {
    let mut policy = SdcLocal::new(SdcLocalConfig::default());
    let mut blind = view(4, 15, &[("web", LC, 1, 0.0), ("batch", BE, 1, 0.0)]);
    blind.workloads.buffer_full_rate.clear();
    let plan = step(&mut policy, &blind, 1);
    assert!(plan.notes.iter().any(|note| note.kind == NoteKind::Warning && note.text.contains("only services")));
    blind.now = Nanos::from_secs(30);
    let again = step(&mut policy, &blind, 2);
    assert!(again.notes.iter().all(|note| note.kind != NoteKind::Warning), "{:?}", again.notes);
    assert_eq!((cpus(&policy, 0), cpus(&policy, 1)), ("0".into(), "1".into()));
}
