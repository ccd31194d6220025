use std::sync::Arc;

use super::*;
use quell_model::{Allowance, Class, CpuCount, Demand, Outcome, Part, Refusal, Slo, Topology, Workload};

struct Scene {
    view: View,
    policy: Vas,
    plan: Plan,
}

impl Scene {
    /// Two cores of two CPUs each.
    fn new() -> Scene {
        let view = View::new(Topology::synthetic(1, 1, 2, 2).into());
        Scene { view, policy: Vas::new(VasConfig::default()), plan: Plan::default() }
    }

    fn attach(&mut self, workload: Workload) -> Event {
        self.view.workloads.spec.push(Some(Arc::new(workload)));
        Event::Attached(WorkloadId(self.view.workloads.spec.len() as u32 - 1))
    }

    fn step(&mut self, events: &[Event]) -> Wake {
        self.plan.begin(self.plan.number + 1);
        self.policy.step(&self.view, events, &mut self.plan)
    }

    /// Workload, CPU, budget and period of the rules, ms.
    fn rules(&self) -> Vec<(u32, u32, u64, u64)> {
        let ms = |time: Nanos| time.0 / 1_000_000;
        let of = |rule: &Rule| match *rule {
            Rule::Server { workload, cpu, budget, period, .. } => (workload.0, cpu.0, ms(budget), ms(period)),
            ref other => panic!("{other:?}"),
        };
        self.plan.rules.iter().map(of).collect()
    }

    fn notes(&self, kind: NoteKind) -> Vec<&str> {
        self.plan.notes.iter().filter(|note| note.kind == kind).map(|note| &*note.text).collect()
    }
}

fn asking(name: &str, json: &str) -> Workload {
    let demand: Demand = serde_json::from_str(json).unwrap();
    Workload { demand: Some(demand), ..Workload::new(name, Class::LatencyCritical, CpuCount::ZERO) }
}

fn batch() -> Workload {
    Workload::new("batch", Class::BestEffort, CpuCount::ZERO)
}

const GAMMA1: &str = r#"{"task":["150ms,40ms,250ms","100ms,200ms,500ms","50ms,100ms,1s","0,200ms,2s"]}"#;

#[test]
fn a_demand_gets_the_recommended_interface_and_its_threads_stay_there() {
    let mut scene = Scene::new();
    let events = [scene.attach(asking("web", GAMMA1)), scene.attach(batch())];
    assert_eq!(scene.step(&events), Wake::OnEvent);
    assert_eq!(scene.rules(), [(0, 0, 1620, 2000)]);
    let bound = KnobSetting { target: Target::Workload(WorkloadId(0)), knob: Knob::Cpus(CpuSet::one(CpuId(0))) };
    assert_eq!(scene.plan.knobs, [bound], "others may use what is left of every CPU");
    assert_eq!(scene.plan.leaves.map(|left| left.len()), Some(3));
    scene.step(&[Event::QueueFormed(WorkloadId(1))]);
    assert!(scene.plan.is_idle() && scene.plan.notes.is_empty());
    assert_eq!(scene.plan.leaves.map(|left| left.len()), Some(3), "every step says what is left");
}

#[test]
fn servers_are_one_a_cpu_on_whole_cores_first_and_too_many_are_refused_with_the_numbers() {
    let mut scene = Scene::new();
    let events = [
        scene.attach(asking("spark", r#"{"budget":"3750ms","period":"5s","servers":2}"#)),
        scene.attach(asking("redis", r#"{"budget":"77ms","period":"100ms"}"#)),
        scene.attach(asking("more", r#"{"budget":"1ms","period":"2ms","servers":2}"#)),
    ];
    scene.step(&events);
    assert_eq!(scene.rules().len(), 3);
    let spark = scene.policy.cpus_of(WorkloadId(0));
    assert!(spark.iter().all(|cpu| scene.view.topology.siblings_of(cpu).is_disjoint(&spark)), "{spark}");
    let refused = scene.notes(NoteKind::Refused);
    assert!(refused.len() == 1 && refused[0].contains("asks for 2 of 1 ms every 2 ms"), "{refused:?}");
    assert!(refused[0].contains("1 of 4 CPUs have none yet"), "{refused:?}");
}

#[test]
fn what_goes_is_taken_back_and_what_changes_counts_anew() {
    let mut scene = Scene::new();
    let events = [scene.attach(asking("a", r#"{"budget":"1ms","period":"4ms","servers":2}"#))];
    scene.step(&events);
    scene.view.workloads.spec[0] = Some(Arc::new(asking("a", r#"{"budget":"2ms","period":"4ms"}"#)));
    scene.step(&[Event::Attached(WorkloadId(0))]);
    let kept = scene.policy.cpus_of(WorkloadId(0)).lowest().unwrap().0;
    let mut rules = scene.rules();
    rules.sort_by_key(|rule| rule.2);
    assert_eq!((rules[0].2, rules[1]), (0, (0, kept, 2, 4)), "one server fewer, on a CPU that it had");
    scene.view.workloads.spec[0] = None;
    scene.step(&[Event::Detached(WorkloadId(0))]);
    assert!(scene.plan.is_idle() && scene.plan.leaves.is_none(), "the host forgets with the workload");
}

#[test]
fn a_cpu_that_goes_takes_its_server_to_another_one() {
    let mut scene = Scene::new();
    let events = [scene.attach(asking("a", r#"{"budget":"1ms","period":"4ms"}"#))];
    scene.step(&events);
    scene.view.cpus.online.remove(CpuId(0));
    scene.step(&[Event::Offline(CpuId(0))]);
    let rules = scene.rules();
    assert!(rules.contains(&(0, 0, 0, 4)) && rules.iter().any(|rule| rule.1 > 0 && rule.2 == 1), "{rules:?}");
}

#[test]
fn who_has_a_whole_cpu_has_it_alone() {
    let mut scene = Scene::new();
    let events = [scene.attach(asking("a", r#"{"budget":"4ms","period":"4ms"}"#)), scene.attach(batch())];
    scene.step(&events);
    let [_, rest] = scene.plan.knobs[..] else { panic!("{:?}", scene.plan.knobs) };
    assert!(matches!(rest.knob, Knob::Cpus(cpus) if cpus.len() == 3 && !cpus.contains(CpuId(0))), "{rest:?}");
}

#[test]
fn random_requests_get_the_budget_that_keeps_their_slo() {
    let mut scene = Scene::new();
    let poisson = Workload {
        slo: Some(Slo { quantile: 0.99, bound: Nanos::from_millis(3) }),
        ..asking("web", r#"{"poisson":"2k,exponential:100us","period":"10ms"}"#)
    };
    let without = Workload { slo: None, ..poisson.clone() };
    let events = [scene.attach(poisson), scene.attach(without)];
    scene.step(&events);
    let rules = scene.rules();
    assert!(rules.len() == 1 && rules[0].3 == 10 && (2..5).contains(&rules[0].2), "{rules:?}");
    assert!(scene.notes(NoteKind::Refused)[0].contains("give an slo"));
}

#[test]
fn what_makes_no_sense_is_refused_or_warned_of() {
    let mut scene = Scene::new();
    let overload = asking("a", r#"{"task":["0,3ms,4ms","0,2ms,4ms"]}"#);
    let many = asking("b", r#"{"task":["0,1us,10us","0,1us,1000003us"]}"#);
    let best_effort = Workload { class: Class::BestEffort, ..asking("c", r#"{"budget":"1ms","period":"4ms"}"#) };
    let events = [scene.attach(overload), scene.attach(many), scene.attach(best_effort)];
    scene.step(&events);
    assert!(scene.plan.is_idle());
    let refused = scene.notes(NoteKind::Refused);
    assert!(refused[0].contains("125.00 %") && refused[1].contains("quell vas --config"), "{refused:?}");
    assert!(scene.notes(NoteKind::Warning)[0].contains("best-effort"));
}

#[test]
fn a_refusal_is_told_and_tried_again() {
    let mut scene = Scene::new();
    let events = [scene.attach(asking("a", r#"{"budget":"1ms","period":"4ms"}"#))];
    scene.step(&events);
    let verdict = Verdict::Refused(Refusal::System("no".into()));
    let refused = Event::Outcome(Outcome { plan: scene.plan.number, part: Part::Rule(0), verdict });
    let wake = scene.step(&[refused]);
    assert!(scene.plan.is_idle() && scene.notes(NoteKind::Warning).len() == 1);
    let Wake::At(at) = wake else { panic!("{wake:?}") };
    scene.view.now = at;
    assert_eq!(scene.step(&[]), Wake::OnEvent);
    assert_eq!(scene.rules().len(), 1);
}

#[test]
fn who_asks_for_more_than_it_said_is_named_once_a_minute() {
    let mut scene = Scene::new();
    let events = [scene.attach(asking("a", r#"{"budget":"1ms","period":"4ms"}"#))];
    scene.step(&events);
    let mut warned = 0;
    for at in 0..500u64 {
        scene.view.now = Nanos::from_millis(200 * at);
        scene.step(&[Event::BudgetExhausted(WorkloadId(0), CpuId(0), Nanos::ZERO)]);
        warned += scene.notes(NoteKind::Warning).len();
    }
    assert_eq!(warned, 2);
    scene.step(&[Event::BudgetExhausted(WorkloadId(7), CpuId(0), Nanos::ZERO)]);
    assert!(scene.plan.notes.is_empty());
}

#[test]
fn a_quota_below_its_demand_is_refused_with_both() {
    let mut scene = Scene::new();
    let events = [scene.attach(asking("web", r#"{"budget":"77ms","period":"100ms"}"#))];
    let allowance = |quota| Allowance { workload: WorkloadId(0), cpus: None, quota, no_realtime: false };
    scene.view.allowances = Arc::new(vec![allowance(Some(CpuCount(500)))]);
    scene.step(&events);
    assert!(scene.rules().is_empty());
    let notes = scene.notes(NoteKind::Refused);
    assert!(notes.len() == 1 && notes[0].contains("0.77 CPUs") && notes[0].contains("allow it 0.5"), "{notes:?}");
    scene.view.allowances = Arc::new(vec![allowance(Some(CpuCount(770)))]);
    scene.step(&[Event::Allowed(WorkloadId(0))]);
    assert_eq!(scene.rules(), [(0, 0, 77, 100)]);
}
