use std::sync::Arc;

use quell_model::{Class, Nanos, Outcome, Part, Refusal, Reservation, Topology, Verdict, WorkloadId};

use super::*;

fn strict(name: &str, cpus: CpuCount) -> Workload {
    Workload { reservation: Reservation::Strict, ..Workload::new(name, Class::LatencyCritical, cpus) }
}

fn standard(name: &str, cpus: CpuCount) -> Workload {
    Workload::new(name, Class::BestEffort, cpus)
}

fn view(topology: Topology, workloads: Vec<Workload>) -> View {
    let mut view = View::new(topology.into());
    view.workloads.spec = workloads.into_iter().map(|workload| Some(Arc::new(workload))).collect();
    view
}

fn step(policy: &mut Rkube, view: &View, events: &[Event], number: u64) -> Plan {
    let mut plan = Plan::default();
    plan.begin(number);
    policy.step(view, events, &mut plan);
    plan
}

fn cpus_of(plan: &Plan, id: u32) -> Option<String> {
    plan.knobs.iter().find_map(|setting| match setting.knob {
        Knob::Cpus(cpus) if setting.target == Target::Workload(WorkloadId(id)) => Some(cpus.to_string()),
        _ => None,
    })
}

fn applied(plan: &Plan) -> Event {
    Event::Outcome(Outcome { plan: plan.number, part: Part::Knobs, verdict: Verdict::Applied(Nanos::ZERO) })
}

#[test]
fn a_strict_reservation_has_the_fast_cpus_and_the_system_the_slow_ones() {
    let mut policy = Rkube::new(RkubeConfig { system_reserve: 1, ..RkubeConfig::default() });
    let little: CpuSet = "2-5".parse().unwrap();
    let machine = Topology::synthetic(1, 1, 6, 1).with_capacity(&little, 446);
    let view = view(machine, vec![strict("db", CpuCount::whole(2)), standard("batch", CpuCount::whole(1))]);
    let plan = step(&mut policy, &view, &[], 1);
    assert_eq!((cpus_of(&plan, 0), cpus_of(&plan, 1)), (Some("0-1".into()), Some("3-5".into())));
    assert_eq!(policy.placement().system().to_string(), "2");
}

#[test]
fn a_strict_reservation_takes_its_cpus_from_everybody_else() {
    let mut policy = Rkube::new(RkubeConfig::default());
    let mut view = view(
        Topology::synthetic(1, 1, 4, 1),
        vec![standard("batch", CpuCount::whole(1)), standard("web", CpuCount::whole(1))],
    );
    let first = step(&mut policy, &view, &[], 1);
    assert_eq!((cpus_of(&first, 0), cpus_of(&first, 1)), (Some("0-3".into()), Some("0-3".into())));

    view.workloads.spec.push(Some(Arc::new(strict("db", CpuCount::whole(2)))));
    let second = step(&mut policy, &view, &[applied(&first), Event::Attached(WorkloadId(2))], 2);
    assert_eq!(cpus_of(&second, 2).unwrap(), "2-3");
    assert_eq!(cpus_of(&second, 0).unwrap(), "0-1");
    assert_eq!(second.leaves.unwrap().to_string(), "0-1");

    view.workloads.spec[2] = None;
    let third = step(&mut policy, &view, &[applied(&second), Event::Detached(WorkloadId(2))], 3);
    assert_eq!(cpus_of(&third, 0).unwrap(), "0-3", "what a reservation leaves is given back");
}

#[test]
fn over_commitment_is_refused_with_the_numbers() {
    let mut policy = Rkube::new(RkubeConfig { system_reserve: 1, ..RkubeConfig::default() });
    let view = view(
        Topology::synthetic(1, 1, 4, 1),
        vec![strict("a", CpuCount::whole(2)), standard("b", CpuCount(500)), strict("c", CpuCount::whole(1))],
    );
    let plan = step(&mut policy, &view, &[], 1);
    assert_eq!(cpus_of(&plan, 0).unwrap(), "2-3");
    let note = plan.notes.iter().find(|note| note.kind == NoteKind::Refused).unwrap();
    assert_eq!(note.about, Some(WorkloadId(2)));
    assert!(note.text.contains("asks for 1 CPUs") && note.text.contains("only 0 of 4"), "{}", note.text);
    assert_eq!(cpus_of(&plan, 2).unwrap(), "1", "it shares the pool instead");
    assert_eq!(policy.placement().system().to_string(), "0");
}

#[test]
fn of_a_fractional_request_the_rest_is_a_weight() {
    let mut policy = Rkube::new(RkubeConfig::default());
    let view =
        view(Topology::synthetic(1, 1, 4, 1), vec![strict("a", CpuCount(1500)), standard("b", CpuCount::whole(1))]);
    let plan = step(&mut policy, &view, &[], 1);
    assert_eq!(cpus_of(&plan, 0).unwrap(), "0-3", "its own CPU 3 and the pool 0-2");
    assert_eq!(cpus_of(&plan, 1).unwrap(), "0-2");
    assert!(plan.knobs.contains(&KnobSetting { target: Target::Workload(WorkloadId(0)), knob: Knob::Weight(50) }));
    assert!(plan.notes.iter().any(|note| note.text.contains("1 of its 1.5 CPUs")));
}

#[test]
fn a_lost_cpu_moves_only_the_workload_that_had_it() {
    let mut policy = Rkube::new(RkubeConfig::default());
    let mut view =
        view(Topology::synthetic(1, 1, 6, 1), vec![strict("a", CpuCount::whole(2)), strict("b", CpuCount::whole(2))]);
    let first = step(&mut policy, &view, &[], 1);
    assert_eq!((cpus_of(&first, 0).unwrap(), cpus_of(&first, 1).unwrap()), ("4-5".into(), "2-3".into()));
    view.cpus.online.remove(quell_model::CpuId(3));
    let second = step(&mut policy, &view, &[applied(&first), Event::Offline(quell_model::CpuId(3))], 2);
    assert_eq!(cpus_of(&second, 0), None, "untouched");
    assert_eq!(cpus_of(&second, 1).unwrap(), "1-2", "it keeps CPU 2");
}

#[test]
fn a_refused_plan_is_tried_again_and_nothing_is_taken_for_done() {
    let mut policy = Rkube::new(RkubeConfig::default());
    let mut view = view(Topology::synthetic(1, 1, 2, 1), vec![strict("a", CpuCount::whole(1))]);
    let first = step(&mut policy, &view, &[], 1);
    let refusal = Verdict::Refused(Refusal::System("cpuset.cpus: EBUSY".into()));
    let event = Event::Outcome(Outcome { plan: 1, part: Part::Knobs, verdict: refusal });
    let mut plan = Plan::default();
    plan.begin(2);
    assert_eq!(policy.step(&view, &[event], &mut plan), Wake::At(Nanos::from_secs(1)));
    assert!(plan.knobs.is_empty() && plan.notes[0].text.contains("EBUSY"));
    view.now = Nanos::from_secs(1);
    assert_eq!(step(&mut policy, &view, &[], 3).knobs, first.knobs);
}

#[test]
fn partitions_only_where_the_configuration_says_so() {
    let machine = || Topology::synthetic(1, 1, 2, 1);
    let set = KnobSetting { target: Target::Workload(WorkloadId(0)), knob: Knob::Partition(true) };
    for partition in [false, true] {
        let mut policy = Rkube::new(RkubeConfig { partition, ..RkubeConfig::default() });
        let view = view(machine(), vec![strict("a", CpuCount::whole(1))]);
        assert_eq!(step(&mut policy, &view, &[], 1).knobs.contains(&set), partition);
    }
}

#[test]
fn a_standard_workload_without_any_cpu_left_is_refused_not_emptied() {
    let mut policy = Rkube::new(RkubeConfig::default());
    let mut view = view(Topology::synthetic(1, 1, 2, 1), vec![strict("a", CpuCount::whole(2))]);
    let first = step(&mut policy, &view, &[], 1);
    view.workloads.spec.push(Some(Arc::new(standard("b", CpuCount::ZERO))));
    let second = step(&mut policy, &view, &[applied(&first), Event::Attached(WorkloadId(1))], 2);
    assert!(second.knobs.is_empty());
    assert!(second.notes.iter().any(|note| note.kind == NoteKind::Refused && note.about == Some(WorkloadId(1))));
}

#[test]
fn a_plan_that_failed_because_a_target_vanished_is_made_again() {
    let mut policy = Rkube::new(RkubeConfig::default());
    let mut view = view(Topology::synthetic(1, 1, 2, 1), vec![strict("a", CpuCount::whole(1))]);
    let first = step(&mut policy, &view, &[], 1);
    let event = Event::Outcome(Outcome { plan: 1, part: Part::Knobs, verdict: Verdict::Vanished });
    assert!(step(&mut policy, &view, &[event], 2).knobs.is_empty());
    view.now = Nanos::from_secs(1);
    assert_eq!(step(&mut policy, &view, &[], 3).knobs, first.knobs);
}

#[test]
fn who_may_run_on_its_own_cpus_beside_it_is_said() {
    let view = view(Topology::synthetic(1, 1, 4, 1), vec![strict("db", CpuCount::whole(1))]);
    let note = |partition| {
        let mut policy = Rkube::new(RkubeConfig { partition, ..RkubeConfig::default() });
        step(&mut policy, &view, &[], 1).notes[0].text.to_string()
    };
    assert!(note(false).ends_with("are its own, but unmanaged work may run there"), "{}", note(false));
    assert!(note(true).ends_with("are its own"), "{}", note(true));
}
