//! Limits of workloads, on machines made of plain files.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quell_linux::testkit::FakeTree;
use quell_linux::write::{Fate, Journal, Write};
use quell_linux::{HostOptions, LimitState, LinuxHost, limit_obstacle};
use quell_model::{
    Class, CpuCount, Event, Host, Knob, KnobSetting, Plan, Selector, SignalSet, Target, Topology, Verdict, View,
    Workload, WorkloadId,
};

fn machine() -> FakeTree {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
    for (pid, group) in [(100, "batch"), (200, "other")] {
        tree.process(pid, 1, "work");
        tree.cgroup(group);
        tree.join(group, &[pid]);
    }
    tree
}

fn workload(name: &str, limit: Option<u32>, selectors: &[Selector]) -> Workload {
    Workload {
        limit: limit.map(CpuCount),
        selectors: selectors.to_vec(),
        ..Workload::new(name, Class::BestEffort, CpuCount::ZERO)
    }
}

fn cgroup(path: &str) -> Selector {
    Selector::Cgroup(path.into())
}

fn limited(limit: u32) -> Workload {
    workload("batch", Some(limit), &[cgroup("batch")])
}

fn host(tree: &FakeTree) -> LinuxHost {
    tree.host(HostOptions { scan_interval: quell_model::Nanos(1), ..HostOptions::default() }).unwrap()
}

fn look(host: &mut LinuxHost) {
    host.observe(SignalSet::default(), &mut View::new(host.topology()), &mut Vec::new()).unwrap();
}

/// A look is due only some time after the last one.
fn becomes(host: &mut LinuxHost, tree: &FakeTree, expected: &str, what: &str) {
    let begun = Instant::now();
    while max(tree) != expected {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: {}", max(tree));
        std::thread::sleep(Duration::from_millis(2));
        look(host);
    }
}

fn set(host: &mut LinuxHost, id: WorkloadId, knob: Knob) -> Verdict {
    let knobs = vec![KnobSetting { target: Target::Workload(id), knob }];
    let mut events = Vec::new();
    host.apply(&Plan { knobs, ..Plan::default() }, &mut events).unwrap();
    let outcome = events.into_iter().find_map(|event| match event {
        Event::Outcome(outcome) => Some(outcome.verdict),
        _ => None,
    });
    outcome.unwrap()
}

fn max(tree: &FakeTree) -> String {
    tree.read("cgroup/batch/cpu.max")
}

fn why_not(host: &LinuxHost, id: WorkloadId) -> String {
    match host.limit_state(id) {
        Some(LimitState::NotKept(why)) => why.clone(),
        other => panic!("{other:?}"),
    }
}

/// Every write that was made.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<Write>>>);

impl Journal for Log {
    fn before(&mut self, write: &Write) -> std::io::Result<()> {
        self.0.lock().unwrap().push(write.clone());
        Ok(())
    }

    fn done(&mut self, _: &Write, _: Fate) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_burst_is_lowered_before_a_smaller_quota_and_both_are_put_back() {
    let tree = machine();
    tree.write("cgroup/batch/cpu.max", "200000 100000");
    tree.write("cgroup/batch/cpu.max.burst", "100000");
    let log = Log::default();
    let mut host = host(&tree).with_journal(Box::new(log.clone()));
    let id = host.attach(limited(500)).unwrap();
    let burst = || tree.read("cgroup/batch/cpu.max.burst");
    assert_eq!((max(&tree), burst()), ("50000 100000".into(), "50000".into()));
    let order: Vec<String> = log.0.lock().unwrap().iter().map(|write| write.place.to_string()).collect();
    assert!(order[0].ends_with("burst") && order[1].ends_with("cpu.max"), "{order:?}");
    assert!(matches!(set(&mut host, id, Knob::Quota(Some(CpuCount(200)))), Verdict::Applied(_)));
    assert_eq!((max(&tree), burst()), ("20000 100000".into(), "20000".into()));
    assert!(matches!(set(&mut host, id, Knob::Quota(Some(CpuCount(400)))), Verdict::Applied(_)));
    assert_eq!((max(&tree), burst()), ("40000 100000".into(), "40000".into()));
    let last: Vec<String> = log.0.lock().unwrap().iter().rev().take(2).map(|write| write.place.to_string()).collect();
    assert!(last[0].ends_with("burst"), "the burst is raised after the quota: {last:?}");
    let before = log.0.lock().unwrap().len();
    assert!(host.restore().left.is_empty());
    assert_eq!((max(&tree), burst()), ("200000 100000".into(), "100000".into()));
    let back: Vec<String> = log.0.lock().unwrap()[before..].iter().map(|write| write.place.to_string()).collect();
    assert!(back[0].ends_with("cpu.max") && back[1].ends_with("burst"), "{back:?}");
}

#[test]
fn a_limit_in_a_short_period_is_kept_in_a_longer_one() {
    let tree = machine();
    tree.write("cgroup/batch/cpu.max", "max 10000");
    let mut host = host(&tree);
    host.attach(limited(50)).unwrap();
    assert_eq!(max(&tree), "1000 20000");
    host.restore();
    assert_eq!(max(&tree), "max 10000");
}

#[test]
fn a_limit_is_kept_without_any_policy_and_put_back_from_the_journal() {
    let tree = machine();
    let log = Log::default();
    let mut host = host(&tree).with_journal(Box::new(log.clone()));
    let id = host.attach(limited(500)).unwrap();
    assert_eq!(max(&tree), "50000 100000");
    assert_eq!(host.limit_state(id), Some(&LimitState::Kept(tree.path().join("cgroup/batch/cpu.max"))));
    let writes: Vec<String> = log.0.lock().unwrap().iter().map(ToString::to_string).collect();
    assert!(writes.len() == 1 && writes[0].ends_with("cpu.max: max 100000 -> 50000 100000"), "{writes:?}");
    look(&mut host);
    assert!(host.restore().left.is_empty());
    assert_eq!((max(&tree), host.limit_state(id)), ("max 100000".into(), None));
}

#[test]
fn of_a_limit_and_what_a_policy_or_somebody_else_sets_the_tighter_holds() {
    let tree = machine();
    let mut host = host(&tree);
    let id = host.attach(limited(500)).unwrap();
    for (quota, expected) in [(Some(300), "30000"), (Some(2000), "50000"), (None, "50000")] {
        assert!(matches!(set(&mut host, id, Knob::Quota(quota.map(CpuCount))), Verdict::Applied(_)));
        assert_eq!(max(&tree), format!("{expected} 100000"), "{quota:?}");
    }
    assert!(host.detach(id).unwrap().left.is_empty());
    assert_eq!(max(&tree), "max 100000");
    tree.write("cgroup/batch/cpu.max", "4000 20000");
    host.attach(limited(500)).unwrap();
    assert_eq!(max(&tree), "4000 20000", "0.2 CPUs are within the limit");
}

#[test]
fn a_limit_changes_with_its_description_and_ends_with_it() {
    let tree = machine();
    let mut host = host(&tree);
    let id = host.attach(limited(500)).unwrap();
    for (limit, expected) in [(Some(1500), "150000"), (None, "max"), (Some(250), "25000")] {
        host.update(id, workload("batch", limit, &[cgroup("batch")])).unwrap();
        becomes(&mut host, &tree, &format!("{expected} 100000"), "its new limit");
    }
    host.update(id, workload("batch", Some(250), &[cgroup("other")])).unwrap();
    becomes(&mut host, &tree, "max 100000", "it is in another cgroup now");
    assert_eq!(tree.read("cgroup/other/cpu.max"), "25000 100000");
    host.update(id, workload("batch", Some(250), &[cgroup("batch")])).unwrap();
    becomes(&mut host, &tree, "25000 100000", "and back");
    assert_eq!(tree.read("cgroup/other/cpu.max"), "max 100000");
    tree.remove("cgroup/batch");
    tree.cgroup("batch");
    becomes(&mut host, &tree, "25000 100000", "the cgroup was made again");
}

#[test]
fn a_limit_that_cannot_be_kept_is_not_written_and_says_why() {
    let tree = machine();
    let cases: [(&[Selector], &str); 3] = [
        (&[Selector::Pid(100)], "systemd-run --scope -p CPUQuota=50%"),
        (&[Selector::Command("work".into())], "have no cpu.max"),
        (&[cgroup("batch"), cgroup("other")], "it has 2 cgroups"),
    ];
    for (selectors, expected) in cases {
        let mut host = host(&tree);
        let asked = workload("batch", Some(500), selectors);
        let foreseen = limit_obstacle(&tree.roots(), &HostOptions::default(), &asked).unwrap();
        let id = host.attach(asked).unwrap();
        look(&mut host);
        assert!(why_not(&host, id).contains(expected), "{}", why_not(&host, id));
        assert_eq!(foreseen, why_not(&host, id));
        assert_eq!(max(&tree), "max 100000");
    }
}

#[test]
fn a_limit_needs_the_cpu_controller_alone_and_can_have_it_enabled() {
    let tree = machine();
    tree.write("cgroup/batch/cgroup.controllers", "cpu");
    for file in ["cpuset.cpus", "cpuset.cpus.effective", "cpuset.cpus.exclusive", "cpuset.cpus.partition"] {
        tree.remove(format!("cgroup/batch/{file}"));
    }
    let options = HostOptions::default();
    assert_eq!(limit_obstacle(&tree.roots(), &options, &limited(500)), None);
    let id = host(&tree).attach(limited(500)).unwrap();
    assert_eq!((id, max(&tree)), (WorkloadId(0), "50000 100000".into()));
    tree.remove("cgroup/batch/cpu.max");
    let without = limit_obstacle(&tree.roots(), &options, &limited(500)).unwrap();
    assert!(without.contains("enable_controllers = true"), "{without}");
    let allowed = HostOptions { enable_controllers: true, ..HostOptions::default() };
    assert_eq!(limit_obstacle(&tree.roots(), &allowed, &limited(500)), None);
    tree.write("cgroup/cgroup.controllers", "io");
    let nowhere = limit_obstacle(&tree.roots(), &allowed, &limited(500)).unwrap();
    assert!(nowhere.contains("unified_cgroup_hierarchy"), "{nowhere}");
    let later = workload("later", Some(500), &[cgroup("not-yet")]);
    assert_eq!(limit_obstacle(&tree.roots(), &allowed, &later).unwrap(), nowhere);
}

#[test]
fn a_cgroup_that_holds_another_workloads_is_not_limited() {
    let tree = machine();
    tree.cgroup("batch/inner");
    let mut host = host(&tree);
    let outer = host.attach(limited(500)).unwrap();
    assert_eq!(max(&tree), "50000 100000");
    let inner = host.attach(workload("inner", None, &[cgroup("batch/inner")])).unwrap();
    assert_eq!(max(&tree), "max 100000", "the other has its CPUs");
    assert!(why_not(&host, outer).contains("'inner'"), "{}", why_not(&host, outer));
    host.detach(inner).unwrap();
    assert_eq!(max(&tree), "50000 100000", "and when it is gone the limit holds again");
}

#[test]
fn a_limit_that_is_refused_is_tried_again_and_keeps_no_policy_from_its_work() {
    let tree = machine();
    tree.remove("cgroup/batch/cpu.max");
    fs::create_dir(tree.path().join("cgroup/batch/cpu.max")).unwrap();
    let mut host = host(&tree);
    let id = host.attach(limited(500)).unwrap();
    assert!(why_not(&host, id).contains("cpu.max"), "{}", why_not(&host, id));
    assert!(matches!(set(&mut host, id, Knob::Weight(7)), Verdict::Applied(_)));
    assert_eq!(tree.read("cgroup/batch/cpu.weight"), "7");
    fs::remove_dir(tree.path().join("cgroup/batch/cpu.max")).unwrap();
    tree.write("cgroup/batch/cpu.max", "max 100000");
    becomes(&mut host, &tree, "50000 100000", "retrying with increasing pauses");
    assert!(matches!(host.limit_state(id), Some(LimitState::Kept(_))));
}

#[test]
fn a_dry_run_tells_of_the_limit_and_writes_none() {
    let tree = machine();
    let log = Log::default();
    let options = HostOptions { dry_run: true, ..HostOptions::default() };
    let mut host = tree.host(options).unwrap().with_journal(Box::new(log.clone()));
    host.attach(limited(500)).unwrap();
    assert_eq!((log.0.lock().unwrap().len(), max(&tree)), (1, "max 100000".into()));
}
