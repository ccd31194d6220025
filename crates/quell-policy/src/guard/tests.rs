use super::*;
use quell_model::{Allowance, Class, Outcome, Refusal, Sample, SchedClass, ThreadState, Topology, Workload};
use std::sync::Arc;

struct Bench {
    guard: Guard,
    view: View,
    plans: u64,
}

impl Bench {
    fn new(cpus: u32, workloads: Vec<Workload>) -> Bench {
        let mut view = View::new(Topology::synthetic(1, 1, cpus, 1).into());
        view.workloads.spec = workloads.into_iter().map(|spec| Some(Arc::new(spec))).collect();
        Bench { guard: Guard::new(GuardConfig::default()), view, plans: 0 }
    }

    /// 20 ms pass in which thread `n` of workload `w` ran for the given milliseconds.
    fn pass(&mut self, ran: &[(u32, i32, u64)]) -> Plan {
        self.view.now += Nanos::from_millis(20);
        let columns = &mut self.view.threads;
        columns.at = self.view.now;
        for &(workload, tid, millis) in ran {
            let id = ThreadId { tid, start: 1 };
            let index = columns.id.iter().position(|known| *known == id).unwrap_or_else(|| {
                columns.id.push(id);
                columns.workload.push(WorkloadId(workload));
                columns.state.push(ThreadState::Runnable);
                columns.cpu.push(quell_model::CpuId(0));
                columns.run_time.push(Nanos::ZERO);
                columns.run_delay.push(Nanos::ZERO);
                columns.class.push(SchedClass::NORMAL);
                columns.id.len() - 1
            });
            columns.run_time[index] += Nanos::from_millis(millis);
        }
        self.step(&[])
    }

    fn step(&mut self, events: &[Event]) -> Plan {
        let mut plan = Plan::default();
        self.plans += 1;
        plan.begin(self.plans);
        self.guard.step(&self.view, events, &mut plan);
        plan
    }
}

fn lc(name: &str, cpus: CpuCount) -> Workload {
    Workload::new(name, Class::LatencyCritical, cpus)
}

const NORMAL: Knob = Knob::Class(SchedClass::NORMAL);
const FIFO: Knob = Knob::Class(SchedClass::Fifo { priority: 1 });

fn set(target: Target, knob: Knob) -> KnobSetting {
    KnobSetting { target, knob }
}

fn thread(tid: i32) -> Target {
    Target::Thread(ThreadId { tid, start: 1 })
}

#[test]
fn latency_critical_work_is_promoted_and_best_effort_work_is_idle_only() {
    let be = Workload::new("b", Class::BestEffort, CpuCount::ZERO);
    let mut bench = Bench::new(2, vec![lc("a", CpuCount::whole(1)), be]);
    let plan = bench.pass(&[(0, 1, 0), (1, 2, 20)]);
    let expected =
        [set(Target::Workload(WorkloadId(0)), FIFO), set(Target::Workload(WorkloadId(1)), Knob::IdleOnly(true))];
    assert_eq!(plan.knobs, expected);
    assert!(bench.pass(&[(0, 1, 5), (1, 2, 20)]).knobs.is_empty(), "said once");
}

#[test]
fn a_thread_that_never_pauses_is_demoted_within_100_ms_and_promoted_after_its_probation() {
    let mut bench = Bench::new(4, vec![lc("a", CpuCount::whole(2))]);
    bench.pass(&[(0, 1, 0), (0, 2, 0)]);
    let start = bench.view.now;
    let demoted = std::iter::repeat_with(|| bench.pass(&[(0, 1, 20), (0, 2, 2)]))
        .take(10)
        .position(|plan| plan.knobs.contains(&set(thread(1), NORMAL)))
        .unwrap();
    let took = Nanos::from_millis(20 * (demoted as u64 + 1));
    assert!(took <= Nanos::from_millis(80), "{took}");
    let promoted = std::iter::repeat_with(|| bench.pass(&[(0, 1, 5), (0, 2, 2)]))
        .take(100)
        .position(|plan| plan.knobs.contains(&set(thread(1), FIFO)));
    assert!(promoted.is_some(), "since {start}");
}

#[test]
fn a_second_demotion_lasts_longer() {
    let mut conduct = Conduct::default();
    conduct.demote(Nanos::ZERO, Nanos(10));
    assert_eq!(conduct.demoted_until, Some(Nanos(10)));
    conduct.demote(Nanos(100), Nanos(10));
    assert_eq!(conduct.demoted_until, Some(Nanos(120)));
    (0..40).for_each(|_| conduct.demote(Nanos(0), Nanos(10)));
    assert_eq!(conduct.demoted_until, Some(Nanos(160)));
}

#[test]
fn a_workload_beyond_its_guarantee_is_demoted_until_it_stays_within() {
    let mut bench = Bench::new(4, vec![lc("a", CpuCount::whole(1)), lc("b", CpuCount::whole(1))]);
    bench.pass(&[(0, 1, 0), (0, 2, 0), (1, 3, 0)]);
    // a uses 1.5 CPUs of 1 with threads that each pause; b stays within its CPU.
    let mut busy = || bench.pass(&[(0, 1, 15), (0, 2, 15), (1, 3, 8)]);
    let plan = std::iter::repeat_with(&mut busy).take(20).find(|plan| !plan.knobs.is_empty()).unwrap();
    assert_eq!(plan.knobs, [set(Target::Workload(WorkloadId(0)), NORMAL)]);
    for _ in 0..200 {
        assert!(busy().knobs.is_empty(), "it remains demoted while it uses more");
    }
    let plan = std::iter::repeat_with(|| bench.pass(&[(0, 1, 5), (0, 2, 5), (1, 3, 8)]))
        .take(200)
        .find(|plan| !plan.knobs.is_empty())
        .unwrap();
    assert_eq!(plan.knobs, [set(Target::Workload(WorkloadId(0)), FIFO)]);
}

#[test]
fn a_demoted_workload_that_gets_little_but_wants_much_stays_demoted() {
    let mut bench = Bench::new(2, vec![lc("a", CpuCount::whole(1))]);
    bench.pass(&[(0, 1, 0), (0, 2, 0)]);
    let demoted = std::iter::repeat_with(|| bench.pass(&[(0, 1, 18), (0, 2, 18)]))
        .take(20)
        .any(|plan| plan.knobs.contains(&set(Target::Workload(WorkloadId(0)), NORMAL)));
    assert!(demoted);
    for _ in 0..500 {
        bench.view.threads.run_delay.iter_mut().for_each(|delay| *delay += Nanos::from_millis(15));
        assert!(bench.pass(&[(0, 1, 5), (0, 2, 5)]).knobs.is_empty(), "it runs 0.5 CPUs and waits for 1.5 more");
    }
}

#[test]
fn one_look_that_seems_calm_does_not_promote_a_runaway() {
    let mut bench = Bench::new(2, vec![lc("a", CpuCount::whole(2))]);
    bench.pass(&[(0, 1, 0)]);
    let demoted = (0..10).any(|_| bench.pass(&[(0, 1, 20)]).knobs.contains(&set(thread(1), NORMAL)));
    assert!(demoted);
    for look in 0..300 {
        let ran = if look % 2 == 0 { 20 } else { 15 };
        assert!(bench.pass(&[(0, 1, ran)]).knobs.is_empty(), "look {look}");
    }
}

#[test]
fn waiting_is_no_running() {
    let mut bench = Bench::new(2, vec![lc("a", CpuCount::whole(1))]);
    bench.pass(&[(0, 1, 0)]);
    for _ in 0..50 {
        bench.view.threads.run_delay[0] += Nanos::from_millis(20);
        assert!(bench.pass(&[(0, 1, 0)]).knobs.is_empty(), "it waits behind another thread and never ran");
    }
}

#[test]
fn guarantees_beyond_the_machine_are_refused_with_the_numbers() {
    let mut bench = Bench::new(2, vec![lc("a", CpuCount(1500)), lc("b", CpuCount::whole(1)), lc("c", CpuCount(500))]);
    let plan = bench.pass(&[]);
    assert_eq!(plan.knobs, [set(Target::Workload(WorkloadId(0)), FIFO), set(Target::Workload(WorkloadId(2)), FIFO)]);
    let note = plan.notes.iter().find(|note| note.kind == NoteKind::Refused).unwrap();
    assert!(note.about == Some(WorkloadId(1)) && note.text.contains("promised 1.5 of 2"), "{}", note.text);
}

#[test]
fn a_refused_class_is_asked_for_again() {
    let mut bench = Bench::new(2, vec![lc("a", CpuCount::whole(1))]);
    let first = bench.pass(&[]);
    let verdict = Verdict::Refused(Refusal::System("EPERM".into()));
    let plan = bench.step(&[Event::Outcome(Outcome { plan: first.number, part: Part::Knobs, verdict })]);
    assert!(plan.knobs.is_empty() && plan.notes.iter().any(|note| note.text.contains("EPERM")));
    bench.view.now += retry::FIRST;
    assert_eq!(bench.step(&[]).knobs, first.knobs);
}

#[test]
fn without_real_time_budget_it_has_the_highest_weight_and_a_short_slice_under_the_same_budgets() {
    let mut bench = Bench::new(4, vec![lc("a", CpuCount::whole(2)), lc("b", CpuCount::whole(1))]);
    let closed = Allowance { workload: WorkloadId(0), cpus: None, quota: None, no_realtime: true };
    bench.view.allowances = Arc::new(vec![closed]);
    let substitute = Knob::Class(SUBSTITUTE);
    let plan = bench.pass(&[(0, 1, 0), (1, 2, 0)]);
    let expected = [set(Target::Workload(WorkloadId(0)), substitute), set(Target::Workload(WorkloadId(1)), FIFO)];
    assert_eq!(plan.knobs, expected);
    let said = plan.notes.iter().find(|note| note.kind == NoteKind::Warning).unwrap();
    assert!(said.about == Some(WorkloadId(0)) && said.text.contains("cpu.rt_runtime_us"), "{said:?}");
    let plans: Vec<Plan> = (0..5).map(|_| bench.pass(&[(0, 1, 20), (1, 2, 1)])).collect();
    assert!(plans.iter().any(|plan| plan.knobs == [set(thread(1), NORMAL)]), "a runaway is demoted as ever");
    let plans: Vec<Plan> = (0..80).map(|_| bench.pass(&[(0, 1, 1), (1, 2, 1)])).collect();
    assert!(plans.iter().any(|plan| plan.knobs == [set(thread(1), substitute)]));
    bench.view.allowances = Arc::default();
    assert_eq!(
        bench.pass(&[(0, 1, 1), (1, 2, 1)]).knobs,
        [set(Target::Workload(WorkloadId(0)), FIFO)],
        "it got a budget"
    );
}

impl Bench {
    fn class(&mut self, tid: i32, class: SchedClass) {
        let index = self.view.threads.id.iter().position(|id| id.tid == tid).unwrap();
        self.view.threads.class[index] = class;
    }
}

#[test]
fn a_real_time_thread_of_the_services_own_is_not_demoted_and_counts_against_its_budget() {
    let mut bench = Bench::new(4, vec![lc("a", CpuCount::whole(1))]);
    bench.pass(&[(0, 1, 0), (0, 2, 0)]);
    bench.class(1, SchedClass::Fifo { priority: 50 });
    bench.class(2, SchedClass::Fifo { priority: 1 });
    for look in 0..50 {
        assert!(bench.pass(&[(0, 1, 19), (0, 2, 0)]).knobs.is_empty(), "look {look}: within its one CPU");
    }
    let plan = std::iter::repeat_with(|| bench.pass(&[(0, 1, 20), (0, 2, 10)])).take(50);
    let knobs: Vec<KnobSetting> = plan.flat_map(|plan| plan.knobs).collect();
    assert_eq!(knobs, [set(Target::Workload(WorkloadId(0)), NORMAL)], "its other threads");
}

#[test]
fn background_threads_of_a_service_use_up_no_budget() {
    let mut bench = Bench::new(4, vec![lc("a", CpuCount::whole(1))]);
    bench.pass(&[(0, 1, 0), (0, 2, 0), (0, 3, 0)]);
    bench.class(2, SchedClass::Idle);
    bench.class(3, SchedClass::Batch { nice: 0 });
    for look in 0..100 {
        assert!(bench.pass(&[(0, 1, 5), (0, 2, 20), (0, 3, 20)]).knobs.is_empty(), "look {look}");
    }
}

impl Bench {
    /// 20 ms pass in which its threads ran as given, and its cgroups counted this much.
    fn counted(&mut self, ran: &[(u32, i32, u64)], millis: u64) -> Plan {
        let columns = &mut self.view.workloads.critical_run_time;
        columns.resize(1, Sample::default());
        columns[0] = Sample::exact(columns[0].value + Nanos::from_millis(millis), self.view.now);
        self.pass(ran)
    }
}

/// A service that makes a process for each request: those begin as SCHED_FIFO, like the one that made them, and no look lists them.
#[test]
fn processes_that_end_between_two_looks_use_up_the_budget_of_their_workload() {
    let mut bench = Bench::new(4, vec![lc("a", CpuCount::whole(1))]);
    bench.counted(&[(0, 1, 0)], 0);
    assert!(bench.counted(&[(0, 1, 2)], 20).knobs.is_empty(), "its one CPU");
    let knobs: Vec<KnobSetting> = (0..4).flat_map(|_| bench.counted(&[(0, 1, 2)], 60).knobs).collect();
    assert_eq!(knobs, [set(Target::Workload(WorkloadId(0)), NORMAL)]);
    // As long as it wants more than its CPU it has no promotion back.
    assert!((0..100).all(|_| bench.counted(&[(0, 1, 2)], 20).knobs.is_empty()));
    let knobs: Vec<KnobSetting> = (0..100).flat_map(|_| bench.counted(&[(0, 1, 2)], 10).knobs).collect();
    assert_eq!(knobs, [set(Target::Workload(WorkloadId(0)), FIFO)]);
}

/// The cgroups and the threads are read one after the other, so one may be ahead of the other.
#[test]
fn what_is_listed_before_it_is_counted_is_not_counted_twice() {
    let mut bench = Bench::new(4, vec![lc("a", CpuCount::whole(2))]);
    bench.counted(&[(0, 1, 0), (0, 2, 0)], 0);
    for look in 0..100 {
        let counted = if look % 2 == 0 { 30 } else { 40 };
        assert!(bench.counted(&[(0, 1, 17), (0, 2, 17)], counted).knobs.is_empty(), "look {look}");
    }
}

/// A workload of one guaranteed CPU whose quota is one CPU.
fn capped() -> Bench {
    let mut bench = Bench::new(4, vec![lc("a", CpuCount::whole(1))]);
    let quota = Some(CpuCount::whole(1));
    let allowance = Allowance { workload: WorkloadId(0), cpus: None, quota, no_realtime: false };
    bench.view.allowances = Arc::new(vec![allowance]);
    bench
}

impl Bench {
    /// Steps at the times that it asks for, with all threads running since `begin` and their times as the kernel adds them up, until
    /// it demotes `target`; returns how long that took.
    fn until_demoted(&mut self, target: Target, begin: Nanos, tick: Nanos) -> Nanos {
        let before = self.view.threads.run_time.clone();
        loop {
            let mut plan = Plan::default();
            plan.begin(99);
            let Wake::At(next) = self.guard.step(&self.view, &[], &mut plan) else { panic!("it looks again") };
            if plan.knobs.contains(&set(target, NORMAL)) {
                return self.view.now - begin;
            }
            assert!(next - begin < Nanos::from_secs(1), "never demoted");
            (self.view.now, self.view.threads.at) = (next, next);
            let ran = Nanos((next - begin).0 / tick.0 * tick.0);
            self.view.threads.run_time.iter_mut().zip(&before).for_each(|(time, before)| *time = *before + ran);
        }
    }
}

#[test]
fn a_workload_with_a_quota_exceeds_it_by_a_twentieth_of_a_second_at_most() {
    // A kernel that adds times up at once, and Debian's, with a tick each 4 ms.
    for (tick, most) in [(Nanos(1), Nanos::from_millis(50)), (Nanos::from_millis(4), Nanos::from_millis(60))] {
        for phase in 0..20 {
            let mut bench = capped();
            bench.pass(&[(0, 1, 0), (0, 2, 0), (0, 3, 0), (0, 4, 0)]);
            // Four threads run from some time between two looks on.
            let begin = bench.view.now + Nanos::from_millis(phase);
            let took = bench.until_demoted(Target::Workload(WorkloadId(0)), begin, tick);
            assert!(Nanos(took.0 * 3) <= most, "{} beyond, {phase}, ticks of {tick}", Nanos(took.0 * 3));
        }
    }
}

#[test]
fn a_runaway_with_a_quota_is_demoted_within_100_ms() {
    for phase in 0..20 {
        let mut bench = capped();
        bench.pass(&[(0, 1, 0)]);
        let begin = bench.view.now + Nanos::from_millis(phase);
        let took = bench.until_demoted(thread(1), begin, Nanos::from_millis(4));
        assert!(took <= Nanos::from_millis(110), "{took}, {phase}");
    }
}

#[test]
fn a_quota_below_its_cpus_is_the_share_and_one_far_above_changes_nothing() {
    for (quota, share, is_capped) in [(500, 500, true), (1000, 1000, true), (4000, 1000, false)] {
        let record = WorkloadRecord::new(
            WorkloadId(0),
            true,
            CpuCount::whole(1),
            false,
            Some(CpuCount(quota)),
            Nanos::from_millis(50),
        );
        assert_eq!((record.share(), record.is_capped()), (CpuCount(share), is_capped));
    }
}
