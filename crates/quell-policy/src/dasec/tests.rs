use proptest::prelude::*;
use quell_model::{
    Class, CpuCount, CpuId, Outcome, QueueOrder, Refusal, Rule, SchedClass, ThreadId, ThreadState, Topology, Workload,
    WorkloadId,
};

use super::*;

const PERIOD: Nanos = Nanos::from_millis(80);

/// What a thread does in a period: its CPU time in thousandths of the period, whether it is ready at the end, its CPU, and
/// its preemptions.
#[derive(Clone, Copy, Debug)]
struct Does(u64, bool, u32, u64);

/// A machine with threads, and the policy.
struct Scene {
    policy: Dasec,
    view: View,
    events: Vec<Event>,
    plan: Plan,
    number: u64,
    wake: Wake,
    /// The next plan is refused, if it has a knob of this kind.
    refuses: Option<KnobKind>,
}

impl Scene {
    fn new(cpus: u32, workloads: u32, threads: u32, config: DasecConfig) -> Scene {
        let mut view = View::new(Topology::synthetic(1, 1, cpus, 1).into());
        for workload in 0..workloads {
            let spec = Workload::new(format!("vm{workload}"), Class::LatencyCritical, CpuCount::ZERO);
            view.workloads.spec.push(Some(spec.into()));
            for thread in 0..threads {
                view.threads.id.push(ThreadId { tid: (workload * threads + thread + 1) as i32, start: 0 });
                view.threads.workload.push(WorkloadId(workload));
            }
        }
        let count = (workloads * threads) as usize;
        let columns = &mut view.threads;
        columns.state = vec![ThreadState::Sleeping; count];
        columns.cpu = (0..count as u32).map(|thread| CpuId(thread % cpus)).collect();
        columns.run_time = vec![Nanos::ZERO; count];
        columns.run_delay = vec![Nanos::ZERO; count];
        columns.class = vec![SchedClass::NORMAL; count];
        columns.preemptions = vec![Some(0); count];
        columns.late_starts = vec![Some(0); count];
        let (events, plan) = (Vec::new(), Plan::default());
        let mut scene =
            Scene { policy: Dasec::new(config), view, events, plan, number: 0, wake: Wake::OnEvent, refuses: None };
        scene.step();
        scene
    }

    fn step(&mut self) {
        self.number += 1;
        self.plan.begin(self.number);
        self.wake = self.policy.step(&self.view, &self.events, &mut self.plan);
        self.events.clear();
        if !self.plan.knobs.is_empty() {
            let bad = |setting: &KnobSetting| Some(setting.knob.kind()) == self.refuses;
            let verdict = match self.plan.knobs.iter().any(bad) {
                true => Verdict::Refused(Refusal::Unsupported("no slices here".into())),
                false => Verdict::Applied(self.view.now),
            };
            self.events.push(Event::Outcome(Outcome { plan: self.number, part: Part::Knobs, verdict }));
        }
        self.policy.check_bounds();
    }

    fn period(&mut self, does: impl Fn(usize) -> Does) {
        self.view.now += PERIOD;
        let columns = &mut self.view.threads;
        for thread in 0..columns.id.len() {
            let Does(used, ready, cpu, preempted) = does(thread);
            columns.run_time[thread] += PERIOD.scaled(used as f64 / 1000.0);
            columns.state[thread] = if ready { ThreadState::Runnable } else { ThreadState::Sleeping };
            columns.cpu[thread] = CpuId(cpu);
            columns.preemptions[thread] = columns.preemptions[thread].map(|count| count + preempted);
        }
        self.step();
    }

    fn task(&self, thread: usize) -> &Task {
        &self.policy.monitor.tasks[thread]
    }
}

#[test]
fn a_slice_is_that_of_the_papers_example() {
    let mut scene = Scene::new(80, 8, 16, DasecConfig::default());
    scene.period(|thread| Does(1, false, thread as u32 % 80, 0));
    assert_eq!(scene.task(5).slice, Nanos::from_millis(50), "80 CPUs × 80 ms / 128 vCPUs (L203)");
}

#[test]
fn who_uses_its_slice_up_gets_ten_per_cent_more_and_the_others_pay() {
    let mut scene =
        Scene::new(8, 2, 8, DasecConfig { rcr: false, idle_and_unused: Unsaid::Keep, ..DasecConfig::default() });
    // A slice is half the period: thread 0 uses it up and is idle at the end; thread 1 is ready and did not.
    scene.period(|_| Does(100, false, 0, 0));
    scene.period(|thread| Does(if thread == 0 { 600 } else { 100 }, thread == 1, 0, 0));
    let weight = |thread: usize| scene.task(thread).weight;
    assert!((weight(0) - 110.0).abs() < 1e-9, "{}", weight(0));
    assert!((1..8).all(|thread| (weight(thread) - (100.0 - 10.0 / 7.0)).abs() < 1e-9));
    assert!((8..16).all(|thread| weight(thread) == 100.0), "another workload pays nothing");
    assert_eq!(scene.task(0).slice, Nanos::from_millis(44));
    assert_eq!(scene.task(0).latency, Nanos::from_micros(4_400));
    assert_eq!(scene.task(1).latency, Nanos::from_micros(3_600));
    let set = |tid: i32, knob| {
        let target = Target::Thread(ThreadId { tid, start: 0 });
        scene.plan.knobs.contains(&KnobSetting { target, knob })
    };
    assert!(set(1, Knob::Weight(110)) && set(2, Knob::WakeUpLatency(Some(Nanos::from_micros(3_600)))));
}

#[test]
fn at_the_floor_the_wakers_latency_is_shortened_one_edge_deep() {
    let floor = Nanos::from_micros(3_900);
    let mut scene = Scene::new(
        4,
        1,
        4,
        DasecConfig { floor, rcr: false, tsa: false, idle_and_unused: Unsaid::Keep, ..DasecConfig::default() },
    );
    let id = |tid| ThreadId { tid, start: 0 };
    for (total, latency) in [(1, None), (1, Some(4_000)), (2, Some(3_900))] {
        let wake_ups = &mut scene.view.threads.wake_ups;
        wake_ups.clear();
        wake_ups.push(Some(id(2)), id(1), total);
        wake_ups.push(Some(id(3)), id(2), total);
        scene.period(|thread| Does(10, thread == 0, 0, 0));
        if let Some(latency) = latency {
            assert_eq!(scene.task(1).latency, Nanos::from_micros(latency), "after {total} wake-ups");
        }
    }
    assert_eq!(scene.task(2).latency, Nanos::from_millis(4), "two edges away");
}

#[test]
fn slices_of_two_cores_are_brought_nearer_by_a_swap() {
    let mut scene = Scene::new(2, 1, 4, DasecConfig { bound: Bound::ForEver, ..DasecConfig::default() });
    let layout = |thread: usize| thread as u32 / 2;
    // A slice is half the period; both threads of the first core use theirs up.
    let mut busy = || scene.period(|thread| Does(if thread < 2 { 500 } else { 10 }, false, layout(thread), 0));
    busy();
    busy();
    let cores: Vec<u32> = (0..4).map(|thread| scene.task(thread).core().0).collect();
    assert_eq!((cores, scene.policy.swaps()), (vec![1, 0, 0, 1], 1), "slices of 88 and 72 ms");
}

#[test]
fn conflicts_are_spread_by_swaps() {
    let scene = || Scene::new(2, 1, 4, DasecConfig { bound: Bound::ForEver, ..DasecConfig::default() });
    let layout = |thread: usize| thread as u32 / 2;
    let cores = |scene: &Scene| -> Vec<u32> { (0..4).map(|thread| scene.task(thread).core().0).collect() };
    // Four alike, two on each core; those of the first have conflicts, and their latencies are low.
    let mut low = scene();
    low.period(|thread| Does(10, thread < 2, layout(thread), 0));
    assert_eq!(low.policy.swaps(), 0);
    low.period(|thread| Does(10, thread < 2, layout(thread), if thread < 2 { 2 } else { 0 }));
    assert_eq!(cores(&low), [1, 0, 0, 1], "half of the low ones against half of the high ones");
    // All are ready each time: none of their latencies is low beside the others'.
    let mut alike = scene();
    for _ in 0..100 {
        alike.period(|thread| Does(10, true, layout(thread), if thread < 2 { 2 } else { 0 }));
    }
    assert_eq!((cores(&alike), alike.policy.swaps()), (vec![0, 0, 1, 1], 0));
}

#[test]
fn an_empty_core_swaps_with_none_and_keeps_others_from_nothing() {
    let mut scene = Scene::new(3, 1, 4, DasecConfig { bound: Bound::ForEver, ..DasecConfig::default() });
    // The first core is empty; both threads of the second use their slices up.
    let layout = |thread: usize| 1 + thread as u32 / 2;
    for _ in 0..2 {
        scene.period(|thread| Does(if thread < 2 { 750 } else { 10 }, false, layout(thread), 0));
    }
    let cores: Vec<u32> = (0..4).map(|thread| scene.task(thread).core().0).collect();
    assert_eq!((cores, scene.policy.swaps()), (vec![2, 1, 1, 2], 1));
}

#[test]
fn a_swap_moves_and_does_not_bind_for_a_period() {
    let mut scene = Scene::new(2, 1, 4, DasecConfig::default());
    let layout = |thread: usize| thread as u32 / 2;
    for lost in [0, 2] {
        scene.period(|thread| Does(10, thread < 2, layout(thread), if thread < 2 { lost } else { 0 }));
    }
    let cpus = |scene: &Scene| -> Vec<Knob> {
        let knobs = scene.plan.knobs.iter().map(|setting| setting.knob);
        knobs.filter(|knob| matches!(knob, Knob::Cpus(_))).collect()
    };
    let one = |cpu| Knob::Cpus(CpuSet::one(CpuId(cpu)));
    assert_eq!((cpus(&scene), scene.wake), (vec![one(1), one(0)], Wake::At(scene.view.now + MOMENT)));
    scene.view.now += MOMENT - Nanos(1);
    scene.step();
    assert_eq!(cpus(&scene), []);
    scene.view.now += Nanos(1);
    scene.step();
    let all = Knob::Cpus([CpuId(0), CpuId(1)].into_iter().collect());
    assert_eq!(cpus(&scene), [all; 2], "free again, after a tick");
}

#[test]
fn a_latency_falls_and_rises_again() {
    let mut scene = Scene::new(4, 1, 4, DasecConfig { rcr: false, tsa: false, ..DasecConfig::default() });
    scene.period(|_| Does(10, true, 0, 0));
    let mut latency = |ready: bool| {
        for _ in 0..60 {
            scene.period(|thread| Does(10, ready && thread == 0, 0, 0));
        }
        scene.task(0).latency
    };
    let config = DasecConfig::default();
    assert_eq!((latency(true), latency(false)), (config.floor, config.start_latency));
}

#[test]
fn a_host_without_slices_still_gets_weights_and_nothing_is_half_set() {
    let mut scene = Scene::new(4, 1, 8, DasecConfig { rcr: false, ..DasecConfig::default() });
    scene.refuses = Some(KnobKind::WakeUpLatency);
    let busy = |thread: usize| Does(if thread == 0 { 900 } else { 10 }, thread < 3, 0, 0);
    let mut weights = 0;
    for _ in 0..40 {
        scene.period(busy);
        let has = |kind| scene.plan.knobs.iter().any(|setting| setting.knob.kind() == kind);
        weights += usize::from(has(KnobKind::Weight) && !has(KnobKind::WakeUpLatency));
    }
    assert!(weights > 0, "{weights}");
    let sent = scene.task(0).sent;
    assert!(sent.latency.is_none() && sent.weight > 150, "{sent:?}");
}

#[test]
fn a_critical_thread_is_named_with_those_that_woke_it() {
    let mut scene = Scene::new(4, 1, 8, DasecConfig::default());
    let mut found = None;
    for period in 0..20 {
        scene.view.threads.wake_ups.clear();
        let id = |tid| ThreadId { tid, start: 0 };
        scene.view.threads.wake_ups.push(Some(id(7)), id(3), period * 5);
        scene.period(|thread| Does(if thread == 2 { 900 } else { 10 }, thread == 2, 0, 0));
        found = found.or(scene.plan.notes.iter().find(|note| note.text.contains("is critical")).cloned());
    }
    let found = found.expect("within 20 periods");
    assert_eq!(found.about, Some(WorkloadId(0)));
    assert!(found.text.starts_with("thread 3 is critical: it ran") && found.text.ends_with("woken by 7"), "{found:?}");
}

fn does() -> impl Strategy<Value = Does> {
    (0u64..1001, any::<bool>(), 0u32..8, 0u64..5).prop_map(|(used, ready, cpu, lost)| Does(used, ready, cpu, lost))
}

/// The rules of the last plan are carried out, or refused.
fn answer(scene: &mut Scene, verdict: &Verdict) {
    let outcome = |at| Event::Outcome(Outcome { plan: scene.number, part: Part::Rule(at), verdict: verdict.clone() });
    scene.events.extend((0..scene.plan.rules.len() as u32).map(outcome));
}

fn together(workload: u32, order: QueueOrder) -> Rule {
    Rule::Together { workload: WorkloadId(workload), leader: Some(WorkloadId(0)), order }
}

#[test]
fn by_progress_the_host_is_asked_and_nothing_else_is_done() {
    let mut scene = Scene::new(4, 2, 4, DasecConfig::default());
    let together = |workload| together(workload, QueueOrder::Progress);
    assert_eq!(scene.plan.rules[..2], [together(0), together(1)]);
    assert!(scene.plan.rules.contains(&Rule::Limit { workload: WorkloadId(0), cpus: 4 }));
    answer(&mut scene, &Verdict::Applied(Nanos::ZERO));
    for _ in 0..4 {
        scene.period(|thread| Does(if thread == 0 { 1000 } else { 10 }, thread == 0, 0, 9));
        assert!(scene.plan.rules.is_empty() && scene.plan.knobs.is_empty(), "{:?}", scene.plan);
        assert_eq!(scene.wake, Wake::OnEvent);
    }
    // A host that lets them no more: the printed form.
    let spec = Workload::new("another", Class::LatencyCritical, CpuCount::ZERO);
    scene.view.workloads.spec.push(Some(spec.into()));
    scene.step();
    assert_eq!(scene.plan.rules[..3], [together(0), together(1), together(2)]);
    answer(&mut scene, &Verdict::Refused(Refusal::Unsupported("not any more".into())));
    for _ in 0..4 {
        scene.period(|thread| Does(if thread == 0 { 1000 } else { 10 }, thread == 0, 0, 0));
    }
    assert!(scene.policy.monitor.tasks[0].asked.weight > 100, "{:?}", scene.policy.monitor.tasks[0]);
}

#[test]
fn services_hold_cpus_as_one_where_the_host_can_and_a_host_that_cannot_is_asked_once() {
    let mut scene = Scene::new(4, 2, 4, DasecConfig { order: Order::Printed, ..DasecConfig::default() });
    let together = |workload| together(workload, QueueOrder::Weight);
    assert_eq!(scene.plan.rules[..2], [together(0), together(1)]);
    assert!(scene.plan.rules.contains(&Rule::Guaranteed { workload: WorkloadId(0), cpus: 4 }));
    answer(&mut scene, &Verdict::Applied(Nanos::ZERO));
    // A conflict on one core: there are none, and one cache has nothing to change with.
    for _ in 0..4 {
        scene.period(|thread| Does(500, true, if thread < 6 { 0 } else { 1 }, if thread < 6 { 9 } else { 0 }));
        assert!(!scene.plan.knobs.iter().any(|setting| matches!(setting.knob, Knob::Cpus(_))));
        assert!(scene.plan.rules.is_empty());
    }
    // Another service comes: the leader stays.
    let spec = Workload::new("another", Class::LatencyCritical, CpuCount::ZERO);
    scene.view.workloads.spec.push(Some(spec.into()));
    scene.step();
    assert_eq!(scene.plan.rules[..3], [together(0), together(1), together(2)]);
    answer(&mut scene, &Verdict::Refused(Refusal::Unsupported("not any more".into())));
    scene.step();
    scene.view.workloads.spec.pop();
    scene.step();
    assert!(scene.plan.rules.is_empty(), "{:?}", scene.plan.rules);
}

fn bounds() -> impl Strategy<Value = Bound> {
    prop_oneof![Just(Bound::Moment), Just(Bound::UntilNext), Just(Bound::ForEver)]
}

fn config() -> impl Strategy<Value = DasecConfig> {
    let open = (any::<[bool; 3]>(), bounds(), 0.001f64..1.0, 0.001f64..0.9, 0.001f64..3.0, 1.0f64..100.0);
    open.prop_map(|([tsa, rla, rcr], bound, weight_step, latency_step, latency_growth, least_weight)| DasecConfig {
        tsa,
        rla,
        rcr,
        weight_step,
        latency_step,
        latency_growth,
        least_weight,
        bound,
        ..DasecConfig::default()
    })
}

proptest! {
    /// Sums, bounds and bindings hold through everything (`check_bounds` after each step); threads and CPUs come and go;
    /// what is switched off does nothing; a policy restored from its state goes on alike.
    #[test]
    fn bounds_hold_and_a_restored_policy_goes_on_alike(
        config in config(),
        periods in prop::collection::vec((prop::collection::vec(does(), 24), 1usize..9, 1usize..25), 1..25),
    ) {
        let mut scene = Scene::new(8, 3, 8, config.clone());
        let all = scene.view.threads.clone();
        for (does, cpus, threads) in periods {
            scene.view.cpus.online = (0..cpus as u32).map(CpuId).collect();
            // The last ones are gone, or back.
            let columns = &mut scene.view.threads;
            columns.id = all.id[..threads].to_vec();
            columns.workload = all.workload[..threads].to_vec();
            columns.run_time.resize(threads, Nanos::ZERO);
            columns.state.resize(threads, ThreadState::Sleeping);
            columns.cpu.resize(threads, CpuId(0));
            columns.preemptions.resize(threads, Some(0));
            columns.late_starts.resize(threads, Some(0));
            let before = serde_json::to_string(&scene.policy).unwrap();
            let mut restored: Dasec = serde_json::from_str(&before).unwrap();
            let events = scene.events.clone();
            scene.period(|thread| does[thread]);
            let mut plan = Plan { number: scene.number, ..Plan::default() };
            restored.step(&scene.view, &events, &mut plan);
            prop_assert_eq!(&plan, &scene.plan);
            for setting in &scene.plan.knobs {
                let allowed = match setting.knob {
                    Knob::Weight(_) => true,
                    Knob::WakeUpLatency(_) => config.rla,
                    Knob::Cpus(cpus) => config.rcr && !cpus.is_disjoint(&scene.view.pool()),
                    _ => false,
                };
                prop_assert!(allowed, "{setting:?}");
            }
            if !config.tsa {
                prop_assert!(scene.policy.monitor.tasks.iter().all(|task| (task.weight - 100.0).abs() < 1e-6));
            }
            if config.bound != Bound::ForEver {
                // What moves changes places with something.
                let sorted = |core: fn(&Task) -> CpuId| {
                    let mut cores: Vec<_> = scene.policy.monitor.tasks.iter().map(core).collect();
                    cores.sort_unstable();
                    cores
                };
                prop_assert_eq!(sorted(Task::core), sorted(|task| task.cpu));
            }
        }
    }
}
