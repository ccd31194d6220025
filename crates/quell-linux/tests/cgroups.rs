//! The cgroup level, on machines made of plain files.

use std::io;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use quell_linux::sched::{ThreadCalls, ThreadClass};
use quell_linux::testkit::FakeTree;
use quell_linux::write::{Fate, Journal, Place, Write};
use quell_linux::{HostOptions, Level, LinuxHost};
use quell_model::{
    Class, CpuCount, CpuSet, Event, Host, Knob, KnobKind, KnobSetting, Lease, LeaseLimits, LeaseRequest, Nanos, Plan,
    PreemptionMode, Refusal, SchedClass, Selector, Signal, SignalSet, SoloEnd, Support, Target, Topology, Verdict,
    View, Workload, WorkloadId,
};

const FILES: [&str; 6] =
    ["cpuset.cpus", "cpuset.cpus.exclusive", "cpuset.cpus.partition", "cpu.weight", "cpu.idle", "cpu.max"];

fn machine() -> FakeTree {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 2));
    for (at, name) in ["lc.slice/db.service", "be.slice", "be.slice/batch.service"].into_iter().enumerate() {
        tree.cgroup(name);
        let pid = 1000 + 10 * at as i32;
        tree.process(pid, 1, &format!("program {name}"));
        tree.thread(pid, pid + 1);
        tree.join(name, &[pid]);
    }
    tree
}

fn workload(name: &str, class: Class, cgroup: &str) -> Workload {
    let mut workload = Workload::new(name, class, CpuCount::whole(1));
    workload.selectors.push(Selector::Cgroup(cgroup.into()));
    workload
}

fn attached(tree: &FakeTree, options: HostOptions) -> (LinuxHost, WorkloadId, WorkloadId) {
    let mut host = tree.host(options).unwrap();
    let db = host.attach(workload("db", Class::LatencyCritical, "/lc.slice/db.service")).unwrap();
    let batch = host.attach(workload("batch", Class::BestEffort, "be.slice/batch.service")).unwrap();
    observe(&mut host, &[]);
    (host, db, batch)
}

fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

fn apply(host: &mut LinuxHost, settings: &[(WorkloadId, Knob)]) -> Verdict {
    let knobs = settings.iter().map(|&(id, knob)| KnobSetting { target: Target::Workload(id), knob }).collect();
    carry_out(host, Plan { knobs, ..Plan::default() }).0
}

fn carry_out(host: &mut LinuxHost, plan: Plan) -> (Verdict, Vec<Event>) {
    let mut events = Vec::new();
    host.apply(&plan, &mut events).unwrap();
    let outcome = events.iter().find_map(|event| match event {
        Event::Outcome(outcome) => Some(outcome.verdict.clone()),
        _ => None,
    });
    (outcome.expect("an outcome"), events)
}

fn observe(host: &mut LinuxHost, signals: &[Signal]) -> (View, Vec<Event>) {
    let (mut view, mut events) = (View::new(host.topology()), Vec::new());
    host.observe(SignalSet::of(signals), &mut view, &mut events).unwrap();
    (view, events)
}

fn content(tree: &FakeTree) -> Vec<String> {
    let groups = ["lc.slice", "lc.slice/db.service", "be.slice", "be.slice/batch.service"];
    groups.iter().flat_map(|group| FILES.iter().map(move |file| tree.read(format!("cgroup/{group}/{file}")))).collect()
}

#[test]
fn values_go_to_the_files_and_back() {
    let tree = machine();
    let before = content(&tree);
    let (mut host, db, batch) = attached(&tree, HostOptions::default());
    assert_eq!((host.level(db), host.thread_count(batch)), (Some(Level::Cgroup), 2));
    let verdict = apply(
        &mut host,
        &[
            (db, Knob::Cpus(cpus("0-3"))),
            (batch, Knob::Cpus(cpus("4-7"))),
            (db, Knob::Weight(10_000)),
            (batch, Knob::Quota(Some(CpuCount(2500)))),
            (batch, Knob::IdleOnly(true)),
            (db, Knob::Class(SchedClass::Fifo { priority: 1 })),
        ],
    );
    assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
    assert_eq!(tree.read("cgroup/lc.slice/db.service/cpuset.cpus"), "0-3");
    assert_eq!(tree.read("cgroup/be.slice/batch.service/cpuset.cpus"), "4-7");
    assert_eq!(tree.read("cgroup/lc.slice/db.service/cpu.weight"), "10000");
    assert_eq!(tree.read("cgroup/be.slice/batch.service/cpu.max"), "250000 100000");
    assert_eq!(tree.read("cgroup/be.slice/batch.service/cpu.idle"), "1");
    let (view, _) = observe(&mut host, &[Signal::Threads]);
    let fifo = view.threads.class.iter().filter(|class| class.is_real_time()).count();
    assert_eq!((view.threads.len(), fifo), (4, 2));
    let report = host.restore();
    assert!(report.left.is_empty(), "{report:?}");
    assert_eq!(content(&tree), before);
    let (view, _) = observe(&mut host, &[Signal::Threads]);
    assert!(view.threads.class.iter().all(|class| *class == SchedClass::NORMAL));
}

#[test]
fn who_is_on_a_cpu_is_told_by_runnable_threads_that_ran() {
    let tree = machine();
    let (mut host, db, batch) = attached(&tree, HostOptions::default());
    for (pid, tid, cpu, ran) in [(1000, 1000, 2, 5), (1000, 1001, 3, 7), (1020, 1020, 3, 9), (1020, 1021, 5, 0)] {
        tree.runs_on(pid, tid, cpu);
        tree.ran(pid, tid, ran, 0);
    }
    let (view, _) = observe(&mut host, &[Signal::Holder]);
    let mut expected = vec![None; 8];
    (expected[2], expected[3]) = (Some(db), Some(batch));
    assert_eq!(view.cpus.holder, expected, "of two on CPU 3 the one that ran more; who did not run waits");
    assert!(observe(&mut host, &[]).0.cpus.holder.is_empty());
}

#[test]
fn a_weight_survives_the_time_as_idle_only() {
    let tree = machine();
    let (mut host, _, batch) = attached(&tree, HostOptions::default());
    apply(&mut host, &[(batch, Knob::Weight(50)), (batch, Knob::IdleOnly(true))]);
    assert_eq!(tree.read("cgroup/be.slice/batch.service/cpu.weight"), "50");
    // As the kernel does: an idle group reads a weight of 1 (before 6.18: 0), and refuses another.
    tree.write("cgroup/be.slice/batch.service/cpu.weight", "1");
    apply(&mut host, &[(batch, Knob::Weight(70))]);
    assert_eq!(tree.read("cgroup/be.slice/batch.service/cpu.weight"), "1");
    tree.write("cgroup/be.slice/batch.service/cpu.weight", "100");
    apply(&mut host, &[(batch, Knob::IdleOnly(false))]);
    assert_eq!(tree.read("cgroup/be.slice/batch.service/cpu.idle"), "0");
    assert_eq!(tree.read("cgroup/be.slice/batch.service/cpu.weight"), "70");
}

#[test]
fn a_partition_is_claimed_last_and_verified() {
    let tree = machine();
    let before = content(&tree);
    let options = HostOptions { partitions: true, ..HostOptions::default() };
    let (host, db, batch) = attached(&tree, options);
    let log = Log::default();
    let mut host = host.with_journal(Box::new(log.clone()));
    let verdict = apply(
        &mut host,
        &[(db, Knob::Partition(true)), (db, Knob::Cpus(cpus("0-1"))), (batch, Knob::Cpus(cpus("2-7")))],
    );
    assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
    assert_eq!(tree.read("cgroup/lc.slice/cpuset.cpus.exclusive"), "0-1");
    assert_eq!(tree.read("cgroup/lc.slice/db.service/cpuset.cpus.exclusive"), "0-1");
    assert_eq!(tree.read("cgroup/lc.slice/db.service/cpuset.cpus.partition"), "root");
    let names = log.files();
    assert_eq!(names.last().unwrap(), "cpuset.cpus.partition");
    assert!(
        names.iter().position(|name| name == "cpuset.cpus.exclusive")
            > names.iter().rposition(|name| name == "cpuset.cpus")
    );

    // Its CPUs move: it is an ordinary member meanwhile.
    apply(&mut host, &[(db, Knob::Cpus(cpus("0-2"))), (batch, Knob::Cpus(cpus("3-7")))]);
    assert_eq!(tree.read("cgroup/lc.slice/db.service/cpuset.cpus.exclusive"), "0-2");
    assert_eq!(tree.read("cgroup/lc.slice/cpuset.cpus.exclusive"), "0-2");
    assert_eq!(tree.read("cgroup/lc.slice/db.service/cpuset.cpus.partition"), "root");
    let report = host.restore();
    assert!(report.left.is_empty(), "{report:?}");
    assert_eq!(content(&tree), before);
}

#[test]
fn machine_wide_knobs_need_leave() {
    let tree = machine();
    tree.write("sys/kernel/debug/sched/preempt", "none voluntary full (lazy)");
    let lazy = Plan {
        knobs: vec![KnobSetting { target: Target::Machine, knob: Knob::Preemption(PreemptionMode::Full) }],
        ..Plan::default()
    };
    let (mut host, db, _) = attached(&tree, HostOptions::default());
    assert!(matches!(apply(&mut host, &[(db, Knob::Partition(true))]), Verdict::Refused(Refusal::Forbidden(_))));
    assert!(matches!(carry_out(&mut host, lazy.clone()).0, Verdict::Refused(Refusal::Forbidden(_))));
    assert!(matches!(host.capabilities().knobs[&KnobKind::Preemption], Support::No { .. }));
    let (mut host, ..) = attached(&tree, HostOptions { partitions: true, ..HostOptions::default() });
    assert!(
        matches!(carry_out(&mut host, lazy.clone()).0, Verdict::Refused(Refusal::Forbidden(_))),
        "leave for another"
    );
    let (mut host, db, _) = attached(&tree, HostOptions { preemption_mode: true, ..HostOptions::default() });
    assert_eq!(host.capabilities().knobs[&KnobKind::Preemption], Support::Yes);
    assert!(matches!(apply(&mut host, &[(db, Knob::Partition(true))]), Verdict::Refused(Refusal::Forbidden(_))));
    assert!(matches!(carry_out(&mut host, lazy).0, Verdict::Applied(_)));
    assert_eq!(tree.read("sys/kernel/debug/sched/preempt"), "full");
    host.restore();
    assert_eq!(tree.read("sys/kernel/debug/sched/preempt"), "lazy");
}

#[test]
fn a_solo_run_freezes_the_others_and_ends_by_itself() {
    let tree = machine();
    let (mut host, db, batch) = attached(&tree, HostOptions::default());
    apply(&mut host, &[(db, Knob::Cpus(cpus("0")))]);
    let lease = Lease::of(db, true, Nanos::from_millis(30));
    let (verdict, events) = carry_out(&mut host, Plan { leases: vec![LeaseRequest::Begin(lease)], ..Plan::default() });
    assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
    assert!(events.contains(&Event::SoloBegan(db)));
    assert_eq!(tree.read("cgroup/be.slice/batch.service/cgroup.freeze"), "1");
    assert_eq!(tree.read("cgroup/lc.slice/db.service/cgroup.freeze"), "0");
    assert_eq!(tree.read("cgroup/lc.slice/db.service/cpuset.cpus"), "");
    host.wait(quell_model::Wake::OnEvent).unwrap();
    let (_, events) = observe(&mut host, &[]);
    assert!(events.contains(&Event::SoloEnded(db, SoloEnd::Elapsed)), "{events:?}");
    assert_eq!(tree.read("cgroup/be.slice/batch.service/cgroup.freeze"), "0");
    assert_eq!(tree.read("cgroup/lc.slice/db.service/cpuset.cpus"), "0");
    let (verdict, _) = carry_out(&mut host, Plan { leases: vec![LeaseRequest::Begin(lease)], ..Plan::default() });
    assert!(matches!(verdict, Verdict::Refused(Refusal::DutyCycle(_))), "{verdict:?}");
    assert!(host.thread_count(batch) > 0);
}

/// A machine whose systemd answers this about each unit; None: it does not answer.
fn with_systemd(answer: Option<&str>) -> FakeTree {
    let tree = machine();
    tree.write("proc/1020/cgroup", "0::/be.slice/batch.service\n");
    tree.write("run/systemd/system/sign", "");
    if let Some(answer) = answer {
        tree.write("systemctl", &format!("#!/bin/sh\nshift 3\nfor unit; do echo WatchdogUSec={answer}; echo; done\n"));
        let script = tree.path().join("systemctl");
        std::fs::set_permissions(script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    tree
}

#[test]
fn a_unit_with_a_watchdog_is_paused_for_less_than_half_of_it_or_not() {
    let frozen = |tree: &FakeTree, at_most: u64| {
        let leases = LeaseLimits { longest: Nanos::from_secs(60), duty_per_mille: 1000 };
        let (mut host, db, batch) = attached(tree, HostOptions { leases, ..HostOptions::default() });
        // Until systemd has answered, the unit is not paused.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let lease = Lease::of(db, true, Nanos::from_millis(at_most));
            let began = host.now();
            let (_, events) =
                carry_out(&mut host, Plan { leases: vec![LeaseRequest::Begin(lease)], ..Plan::default() });
            assert!(events.contains(&Event::SoloBegan(db)));
            if tree.read("cgroup/be.slice/batch.service/cgroup.freeze") != "0" {
                host.wait(quell_model::Wake::OnEvent).unwrap();
                assert!(observe(&mut host, &[]).1.contains(&Event::SoloEnded(db, SoloEnd::Elapsed)));
                assert_eq!(tree.read("cgroup/be.slice/batch.service/cgroup.freeze"), "0");
                return Some(host.now() - began);
            }
            assert!(events.contains(&Event::Spared(batch)), "{events:?}");
            carry_out(&mut host, Plan { leases: vec![LeaseRequest::End(db)], ..Plan::default() });
            if std::time::Instant::now() > deadline || tree.path().join("answered").exists() {
                return None;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let shortened = frozen(&with_systemd(Some("400ms")), 300).expect("paused");
    assert!(shortened >= Nanos::from_millis(175), "{shortened}");
    assert!(frozen(&with_systemd(Some("10s")), 30).is_some());
    assert!(frozen(&with_systemd(Some("infinity")), 30).is_some());
    let short = with_systemd(Some("100ms"));
    short.write("answered", "");
    assert_eq!(frozen(&short, 300), None, "half of it is too short, or systemd has not answered yet");
    let silent = with_systemd(None);
    silent.write("answered", "");
    assert_eq!(frozen(&silent, 300), None, "a systemd that does not answer");
}

#[test]
fn a_process_cannot_exempt_itself_by_its_own_environment() {
    let tree = machine();
    tree.write("proc/1020/environ", "WATCHDOG_USEC=1\0WATCHDOG_PID=1020\0");
    tree.write("proc/1020/status", "NSpid:\t1020");
    tree.write("proc/1020/cgroup", "0::/be.slice/batch.service\n");
    let (mut host, db, _) = attached(&tree, HostOptions::default());
    let lease = Lease::of(db, true, Nanos::from_millis(30));
    carry_out(&mut host, Plan { leases: vec![LeaseRequest::Begin(lease)], ..Plan::default() });
    assert_eq!(tree.read("cgroup/be.slice/batch.service/cgroup.freeze"), "1");
}

#[test]
fn a_solo_run_passes_on_and_everything_goes_on_at_its_end() {
    let tree = machine();
    let (mut host, db, batch) = attached(&tree, HostOptions::default());
    let other = Workload { pausable: true, ..workload("other", Class::LatencyCritical, "/be.slice") };
    let other = host.attach(other).unwrap();
    let frozen = || {
        ["lc.slice/db.service", "be.slice/batch.service", "be.slice"]
            .map(|group| tree.read(format!("cgroup/{group}/cgroup.freeze")) == "1")
    };
    let ask = |host: &mut LinuxHost, request| carry_out(host, Plan { leases: vec![request], ..Plan::default() });
    let pass = LeaseRequest::Pass { from: other, to: db };
    assert_eq!(ask(&mut host, pass).0, Verdict::Vanished, "there is none");
    let lease = Lease::of(other, true, Nanos::from_millis(60));
    let began = host.now();
    assert!(matches!(ask(&mut host, LeaseRequest::Begin(lease)).0, Verdict::Applied(_)));
    assert_eq!(frozen(), [false, true, false], "db may not be paused");
    let (verdict, events) = ask(&mut host, pass);
    assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
    assert!(events.ends_with(&[Event::SoloEnded(other, SoloEnd::Passed), Event::SoloBegan(db)]), "{events:?}");
    assert_eq!(frozen(), [false, true, true]);
    host.wait(quell_model::Wake::OnEvent).unwrap();
    let (_, events) = observe(&mut host, &[]);
    assert!(events.contains(&Event::SoloEnded(db, SoloEnd::Elapsed)), "{events:?}");
    assert!(host.now() - began >= Nanos::from_millis(60));
    assert_eq!(frozen(), [false; 3]);
    assert_eq!(ask(&mut host, LeaseRequest::Pass { from: db, to: batch }).0, Verdict::Vanished);
}

#[test]
fn a_dropped_host_leaves_nobody_frozen() {
    let tree = machine();
    let (mut host, db, _) = attached(&tree, HostOptions::default());
    let lease = Lease::of(db, false, Nanos::from_secs(1));
    carry_out(&mut host, Plan { leases: vec![LeaseRequest::Begin(lease)], ..Plan::default() });
    assert_eq!(tree.read("cgroup/be.slice/batch.service/cgroup.freeze"), "1");
    drop(host);
    assert_eq!(tree.read("cgroup/be.slice/batch.service/cgroup.freeze"), "0");
}

#[test]
fn births_get_the_class_and_a_cgroup_that_was_made_again_gets_everything() {
    let tree = machine();
    let (mut host, db, _) = attached(&tree, HostOptions { scan_interval: Nanos::ZERO, ..HostOptions::default() });
    apply(&mut host, &[(db, Knob::Class(SchedClass::Fifo { priority: 1 })), (db, Knob::Weight(200))]);
    tree.thread(1000, 1005);
    let (_, events) = observe(&mut host, &[Signal::Threads]);
    assert!(events.iter().any(|event| matches!(event, Event::ThreadBorn(id, born) if *id == db && born.tid == 1005)));
    let (view, _) = observe(&mut host, &[Signal::Threads]);
    let at = view.threads.id.iter().position(|id| id.tid == 1005).unwrap();
    assert_eq!(view.threads.class[at], SchedClass::Fifo { priority: 1 });

    tree.remove("cgroup/lc.slice/db.service");
    let (_, events) = observe(&mut host, &[]);
    assert_eq!(events.iter().filter(|event| matches!(event, Event::ThreadLeft(id, _) if *id == db)).count(), 3);
    assert!(matches!(apply(&mut host, &[(db, Knob::Weight(300))]), Verdict::Applied(_)), "vanished is no error");
    tree.cgroup("lc.slice/db.service");
    observe(&mut host, &[]);
    assert_eq!(tree.read("cgroup/lc.slice/db.service/cpu.weight"), "300");
}

#[test]
fn a_value_of_somebody_else_is_left() {
    let tree = machine();
    let (mut host, db, _) = attached(&tree, HostOptions::default());
    apply(&mut host, &[(db, Knob::Weight(200)), (db, Knob::Cpus(cpus("0-3")))]);
    tree.write("cgroup/lc.slice/db.service/cpu.weight", "150");
    // The same value again is no reason to fight.
    apply(&mut host, &[(db, Knob::Weight(200))]);
    let report = host.restore();
    assert_eq!(tree.read("cgroup/lc.slice/db.service/cpu.weight"), "150");
    assert_eq!(tree.read("cgroup/lc.slice/db.service/cpuset.cpus"), "");
    assert_eq!((report.left.len(), report.restored.len()), (1, 1));
    assert!(report.left[0].why.contains("200"), "{report:?}");
}

#[test]
fn an_earlier_runs_changes_are_put_back() {
    let tree = machine();
    let before = content(&tree);
    let (mut host, db, batch) = attached(&tree, HostOptions::default());
    apply(
        &mut host,
        &[(db, Knob::Weight(200)), (batch, Knob::Cpus(cpus("4-7"))), (batch, Knob::Class(SchedClass::Idle))],
    );
    let journal = serde_json::to_string(&host.touched()).unwrap();
    drop(host);
    // A thread that was born in between has its parent's class.
    tree.thread(1020, 1029);
    tree.threads().set_class(1029, &ThreadClass::of(SchedClass::Idle)).unwrap();
    let (mut host, ..) = attached(&tree, HostOptions::default());
    host.adopt(serde_json::from_str::<Vec<_>>(&journal).unwrap());
    let report = host.restore();
    assert_eq!(content(&tree), before);
    assert!(report.left.is_empty(), "{report:?}");
    let (view, _) = observe(&mut host, &[Signal::Threads]);
    assert_eq!(view.threads.len(), 5);
    assert!(view.threads.class.iter().all(|class| *class == SchedClass::NORMAL));
}

#[test]
fn a_dry_run_says_everything_and_writes_nothing() {
    let tree = machine();
    let before = content(&tree);
    let log = Log::default();
    let (host, db, batch) = attached(&tree, HostOptions { dry_run: true, ..HostOptions::default() });
    let mut host = host.with_journal(Box::new(log.clone()));
    let plan = [(db, Knob::Weight(200)), (batch, Knob::Cpus(cpus("4-7")))];
    assert!(matches!(apply(&mut host, &plan), Verdict::Applied(_)));
    assert_eq!(content(&tree), before);
    assert_eq!(log.files(), ["cpuset.cpus", "cpu.weight"]);
    apply(&mut host, &[(db, Knob::Weight(100))]);
    assert_eq!(log.0.lock().unwrap().writes.last().unwrap().before.to_string(), "200");
}

#[test]
fn values_that_cannot_be_are_refused_with_the_fix() {
    let tree = machine();
    let (mut host, db, _) = attached(&tree, HostOptions::default());
    for (knob, fix) in [
        (Knob::Weight(0), "1 to 10000"),
        (Knob::Cpus(cpus("64")), "0-7"),
        (Knob::Class(SchedClass::Fifo { priority: 0 }), "1 to 99"),
        (Knob::CacheWays(3), "mount -t resctrl"),
    ] {
        let verdict = apply(&mut host, &[(db, Knob::Weight(7)), (db, knob)]);
        let Verdict::Refused(refusal) = verdict else { panic!("{verdict:?}") };
        assert!(refusal.to_string().contains(fix), "{refusal}");
    }
    tree.write("cgroup/lc.slice/cpuset.cpus", "0-1");
    let Verdict::Refused(refusal) = apply(&mut host, &[(db, Knob::Cpus(cpus("2")))]) else { panic!() };
    assert!(
        refusal.to_string().contains("db.service/cpuset.cpus") && refusal.to_string().contains("widen"),
        "{refusal}"
    );
    assert_eq!(tree.read("cgroup/lc.slice/db.service/cpu.weight"), "100");
}

#[test]
fn without_controllers_threads_are_set_and_no_file_is() {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
    tree.write("cgroup/db/cgroup.procs", "1000");
    tree.write("cgroup/db/cpu.stat", "usage_usec 10");
    tree.process(1000, 1, "db");
    let mut host = tree.host(HostOptions::default()).unwrap();
    let db = host.attach(workload("db", Class::LatencyCritical, "db")).unwrap();
    assert_eq!(host.level(db), Some(Level::Threads));
    assert!(matches!(apply(&mut host, &[(db, Knob::Weight(10))]), Verdict::Applied(_)));
    assert!(!tree.path().join("cgroup/db/cpu.weight").exists());
    let (view, _) = observe(&mut host, &[Signal::Threads]);
    assert_eq!(view.threads.class, [SchedClass::Fair { nice: 10, slice: None }]);
    let Support::Partly(limit) = &host.capabilities().knobs[&KnobKind::Weight] else { panic!() };
    assert!(limit.contains("nice"), "{limit}");
    assert!(matches!(host.capabilities().knobs[&KnobKind::Quota], Support::No { .. }));
}

#[test]
fn controllers_are_enabled_only_with_leave() {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 2, 1));
    tree.write("cgroup/a/cgroup.subtree_control", "memory");
    tree.write("cgroup/a/b/cgroup.procs", "");
    tree.host(HostOptions::default()).unwrap().attach(workload("b", Class::BestEffort, "a/b")).unwrap();
    assert_eq!(tree.read("cgroup/a/cgroup.subtree_control"), "memory");
    let log = Log::default();
    let options = HostOptions { enable_controllers: true, ..HostOptions::default() };
    let mut host = tree.host(options).unwrap().with_journal(Box::new(log.clone()));
    host.attach(workload("b", Class::BestEffort, "a/b")).unwrap();
    let write = log.0.lock().unwrap().writes[0].clone();
    assert_eq!((write.before.to_string(), write.after.to_string()), ("memory".into(), "cpu cpuset memory".into()));
    assert_eq!(tree.read("cgroup/a/cgroup.subtree_control"), "+cpu +cpuset");
}

#[test]
fn signals_come_from_the_files() {
    let tree = machine();
    let (mut host, db, batch) = attached(&tree, HostOptions::default());
    tree.write("cgroup/lc.slice/db.service/cpu.stat", "usage_usec 1500\nuser_usec 0\nsystem_usec 0");
    tree.ran(1020, 1021, 5_000, 700);
    let (view, _) = observe(&mut host, &[Signal::RunTime, Signal::RunDelay, Signal::ThreadCount, Signal::Latency]);
    assert_eq!(view.workloads.run_time[db.index()].usable(), Some(Nanos::from_micros(1500)));
    assert_eq!(view.workloads.run_delay[batch.index()].usable(), Some(Nanos(700)));
    assert_eq!(view.workloads.thread_count[batch.index()].usable(), Some(2));
    assert_eq!(view.workloads.latency[db.index()].usable(), None);
    assert!(view.threads.is_empty());
    let now = host.now();
    host.feed_latency(db, quell_model::Sample::over(Nanos(9), now, Nanos(5))).unwrap();
    let (view, events) = observe(&mut host, &[Signal::Latency]);
    assert_eq!(view.workloads.latency[db.index()].usable(), Some(Nanos(9)));
    assert!(events.contains(&Event::LatencyArrived(db)));
}

#[test]
fn units_are_found_by_name() {
    let tree = machine();
    let mut host = tree.host(HostOptions::default()).unwrap();
    let mut unit = workload("db", Class::LatencyCritical, "");
    unit.selectors = vec![Selector::Unit("db".into())];
    let id = host.attach(unit.clone()).unwrap();
    observe(&mut host, &[]);
    assert_eq!(host.thread_count(id), 2);
    unit.name = "again".into();
    assert!(host.attach(unit).unwrap_err().to_string().contains("belongs to workload 'db'"));
    // A parent's workload has what its children's have not.
    let rest = host.attach(workload("rest", Class::BestEffort, "be.slice")).unwrap();
    let batch = host.attach(workload("batch", Class::BestEffort, "be.slice/batch.service")).unwrap();
    observe(&mut host, &[]);
    assert_eq!((host.thread_count(rest), host.thread_count(batch)), (2, 2));
}

/// Remembers everything, and refuses to record one write: the host must then not make it.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    writes: Vec<Write>,
    refuse: Option<usize>,
}

impl Log {
    fn files(&self) -> Vec<String> {
        let writes = &self.0.lock().unwrap().writes;
        let names = writes.iter().filter_map(|write| match &write.place {
            Place::File(path) => Some(path.file_name()?.to_string_lossy().into_owned()),
            _ => None,
        });
        names.collect()
    }
}

impl Journal for Log {
    fn before(&mut self, write: &Write) -> io::Result<()> {
        let mut entries = self.0.lock().unwrap();
        if entries.refuse == Some(entries.writes.len()) {
            return Err(io::Error::other("the disk is full"));
        }
        entries.writes.push(write.clone());
        Ok(())
    }

    fn done(&mut self, _: &Write, _: Fate) -> io::Result<()> {
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever the two plans are and wherever the second one is refused, everything is as it was after the first; and
    /// the restore brings back what was before both.
    #[test]
    fn a_plan_applies_as_a_whole_or_not_at_all(first in plans(), second in plans(), refuse in 0usize..12) {
        let tree = machine();
        let origin = (content(&tree), classes(&tree));
        let (host, db, batch) = attached(&tree, HostOptions { partitions: true, ..HostOptions::default() });
        let log = Log::default();
        let mut host = host.with_journal(Box::new(log.clone()));
        let ids = [db, batch];
        let settings = |plan: &[(usize, Knob)]| plan.iter().map(|(at, knob)| (ids[*at], *knob)).collect::<Vec<_>>();
        apply(&mut host, &settings(&first));
        let before = (content(&tree), classes(&tree));
        let made = log.0.lock().unwrap().writes.len();
        log.0.lock().unwrap().refuse = Some(made + refuse);
        let verdict = apply(&mut host, &settings(&second));
        log.0.lock().unwrap().refuse = None;
        if matches!(verdict, Verdict::Refused(_)) {
            prop_assert_eq!((content(&tree), classes(&tree)), before);
        }
        let report = host.restore();
        prop_assert!(report.left.is_empty(), "{:?}", report);
        prop_assert_eq!((content(&tree), classes(&tree)), origin);
    }
}

fn classes(tree: &FakeTree) -> Vec<String> {
    let threads = [1000, 1001, 1020, 1021].map(|tid| (tid / 10 * 10, tid));
    threads.map(|(pid, tid)| tree.read(format!("proc/{pid}/task/{tid}/stat"))).to_vec()
}

fn plans() -> impl Strategy<Value = Vec<(usize, Knob)>> {
    let knob = prop_oneof![
        (1u64..255)
            .prop_map(|mask| Knob::Cpus((0..8).filter(|cpu| mask >> cpu & 1 == 1).map(quell_model::CpuId).collect())),
        any::<bool>().prop_map(Knob::Partition),
        (1u32..10_000).prop_map(Knob::Weight),
        proptest::option::of((100u32..8000).prop_map(CpuCount)).prop_map(Knob::Quota),
        (1u8..99).prop_map(|priority| Knob::Class(SchedClass::Fifo { priority })),
        (-20i8..20).prop_map(|nice| Knob::Class(SchedClass::Fair { nice, slice: None })),
        any::<bool>().prop_map(Knob::Pause),
    ];
    proptest::collection::vec((0usize..2, knob), 1..8)
}

/// As libvirt makes one for each vCPU: a nice value would do nothing there.
#[test]
fn a_thread_alone_in_a_threaded_group_has_that_groups_weight() {
    let tree = machine();
    for (name, threads) in [("vcpu0", "1000"), ("both", "1000\n1001")] {
        let group = format!("lc.slice/db.service/{name}");
        tree.cgroup(&group);
        tree.write(format!("cgroup/{group}/cgroup.type"), "threaded");
        tree.write(format!("cgroup/{group}/cgroup.threads"), threads);
    }
    tree.write("proc/1000/task/1000/cgroup", "0::/lc.slice/db.service/vcpu0");
    tree.write("proc/1000/task/1001/cgroup", "0::/lc.slice/db.service/both");
    let (mut host, ..) = attached(&tree, HostOptions::default());
    let (view, _) = observe(&mut host, &[Signal::Threads]);
    let of = |tid: i32| *view.threads.id.iter().find(|id| id.tid == tid).unwrap();
    let set = |host: &mut LinuxHost, weight| {
        let knobs = [1000, 1001].map(|tid| KnobSetting { target: Target::Thread(of(tid)), knob: Knob::Weight(weight) });
        assert!(matches!(carry_out(host, Plan { knobs: knobs.into(), ..Plan::default() }).0, Verdict::Applied(_)));
    };
    let weight = || tree.read("cgroup/lc.slice/db.service/vcpu0/cpu.weight");
    let before = weight();
    set(&mut host, 161);
    assert_eq!((weight().as_str(), tree.read("cgroup/lc.slice/db.service/both/cpu.weight")), ("161", before.clone()));
    let kernel = tree.threads();
    assert_eq!(kernel.class(1000).unwrap().class, SchedClass::NORMAL);
    assert_eq!(kernel.class(1001).unwrap().class, SchedClass::Fair { nice: -2, slice: None });
    set(&mut host, 50);
    assert_eq!(weight(), "50");
    assert!(host.restore().left.is_empty());
    assert_eq!((weight(), kernel.class(1001).unwrap().class), (before, SchedClass::NORMAL));
}
