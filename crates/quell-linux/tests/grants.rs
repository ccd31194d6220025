//! Grants by affinity: on machines made of plain files, and, where the kernel allows tracing, with a policy and threads that
//! the tests start themselves.

use std::time::{Duration, Instant};

mod guests;

use guests::Guests;
use quell_linux::scheduler::Affinity;
use quell_linux::testkit::FakeTree;
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{
    Class, CpuCount, CpuId, CpuSet, Event, GrantCommand, Host, Outcome, Part, Plan, Refusal, Selector, Signal,
    SignalSet, Stack, Support, Topology, Verdict, View, Wake, Workload, WorkloadId,
};
use quell_policy::AnyPolicy;

fn workload(name: &str, class: Class, selector: Selector) -> Workload {
    let cpus = if class == Class::LatencyCritical { CpuCount::whole(1) } else { CpuCount::ZERO };
    let mut workload = Workload::new(name, class, cpus);
    workload.selectors.push(selector);
    workload
}

fn by_affinity(host: LinuxHost, pool: CpuSet) -> LinuxHost {
    let scheduler = Affinity::new(&host.topology(), pool, None);
    host.with_scheduler(scheduler).unwrap()
}

/// Four CPUs, of which the last is not handed out; a server and two batch jobs in cgroups.
fn machine() -> (FakeTree, LinuxHost, [WorkloadId; 3]) {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
    for (at, name) in ["web", "first", "second"].into_iter().enumerate() {
        tree.cgroup(name);
        let pid = 1000 + 10 * at as i32;
        tree.process(pid, 1, name);
        tree.join(name, &[pid]);
    }
    let mut host = by_affinity(tree.host(HostOptions::default()).unwrap(), CpuSet::first(3));
    let ids = [("web", Class::LatencyCritical), ("first", Class::BestEffort), ("second", Class::BestEffort)]
        .map(|(name, class)| host.attach(workload(name, class, Selector::Cgroup(name.into()))).unwrap());
    look(&mut host);
    (tree, host, ids)
}

fn look(host: &mut LinuxHost) -> View {
    let mut view = View::new(host.topology());
    host.observe(SignalSet::of(&[Signal::Holder]), &mut view, &mut Vec::new()).unwrap();
    view
}

/// What became of each command.
fn apply(host: &mut LinuxHost, grants: &[GrantCommand]) -> Vec<Verdict> {
    let mut events = Vec::new();
    host.apply(&Plan { number: 7, grants: grants.to_vec(), ..Plan::default() }, &mut events).unwrap();
    let verdict = |(at, event)| match event {
        Event::Outcome(Outcome { plan: 7, part: Part::Grant(part), verdict }) if part as usize == at => verdict,
        other => panic!("{other:?}"),
    };
    events.into_iter().enumerate().map(verdict).collect()
}

fn grant(cpu: u32, id: WorkloadId) -> GrantCommand {
    GrantCommand::Grant(CpuId(cpu), id)
}

#[test]
fn best_effort_work_keeps_to_the_cpus_that_it_is_granted() {
    let (tree, mut host, [web, first, second]) = machine();
    let verdicts = apply(&mut host, &[grant(0, web), grant(1, first), grant(2, first)]);
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Applied(_))), "{verdicts:?}");
    assert_eq!(tree.read("cgroup/first/cpuset.cpus"), "1-2");
    assert_eq!(tree.read("cgroup/web/cpuset.cpus"), "", "who runs before all others is bound to nothing");
    assert_eq!(tree.read("cgroup/second/cpuset.cpus"), "0", "who holds nothing has one CPU: here all are held");
    assert_eq!(look(&mut host).cpus.holder, [Some(web), Some(first), Some(first), None]);

    apply(&mut host, &[GrantCommand::Revoke(CpuId(1)), grant(2, second)]);
    assert_eq!(tree.read("cgroup/first/cpuset.cpus"), "1", "it stays where no one else is");
    assert_eq!(tree.read("cgroup/second/cpuset.cpus"), "2");

    host.detach(first).unwrap();
    assert_eq!(tree.read("cgroup/first/cpuset.cpus"), "", "put back");
    host.restore();
    assert_eq!(tree.read("cgroup/second/cpuset.cpus"), "");
}

#[test]
fn it_looks_less_often_while_no_cpu_changes_hands() {
    let (_tree, mut host, [_, first, _]) = machine();
    let looks = |host: &mut LinuxHost, changes: bool| {
        let begun = Instant::now();
        let mut looks = 0;
        while begun.elapsed() < Duration::from_millis(400) {
            let now = look(host).now;
            if changes {
                apply(host, &[grant(1, first)]);
            }
            host.wait(Wake::At(now)).unwrap();
            looks += 1;
        }
        looks
    };
    let calm = looks(&mut host, false);
    assert!((1..=40).contains(&calm), "each 20 ms in the end: {calm} in 400 ms");
    let busy = looks(&mut host, true);
    assert!(busy > calm, "each millisecond: {busy}, before {calm}");
}

#[test]
fn a_cpu_that_is_not_handed_out_is_refused_and_so_is_a_workload_that_is_gone() {
    let (tree, mut host, [_, first, second]) = machine();
    host.detach(second).unwrap();
    look(&mut host);
    let verdicts = apply(&mut host, &[grant(3, first), grant(0, second), grant(1, first)]);
    assert!(matches!(&verdicts[0], Verdict::Refused(Refusal::Forbidden(_))), "{verdicts:?}");
    assert_eq!(verdicts[1], Verdict::Vanished);
    assert!(matches!(verdicts[2], Verdict::Applied(_)));
    assert_eq!(look(&mut host).cpus.holder, [None, Some(first), None, None]);
    assert_eq!(tree.read("cgroup/first/cpuset.cpus"), "1");
}

#[test]
fn where_the_kernel_refuses_nobody_holds_what_was_granted() {
    let (tree, mut host, [_, first, second]) = machine();
    apply(&mut host, &[grant(1, first)]);
    tree.remove("cgroup/second/cpuset.cpus");
    tree.write("cgroup/second/cpuset.cpus/full", "a directory cannot be written");
    let verdicts = apply(&mut host, &[grant(2, second), grant(0, first)]);
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Refused(_))), "{verdicts:?}");
    assert_eq!(look(&mut host).cpus.holder, [None, Some(first), None, None]);
    assert_eq!(tree.read("cgroup/first/cpuset.cpus"), "1");
}

#[test]
fn caladan_gives_a_server_that_waits_a_cpu_of_its_own_and_takes_it_back() {
    let options = HostOptions { threads_only: true, ..HostOptions::default() };
    let linux = LinuxHost::new(Roots::default(), options).unwrap();
    if let Support::No { why, .. } = &linux.capabilities().signals[&Signal::QueueingDelay] {
        eprintln!("not tested here: {why}");
        return;
    }
    let all = quell_linux::sysfs::online(&Roots::default().sys).unwrap();
    let two: CpuSet = all.iter().take(2).collect();
    if two.len() < 2 {
        eprintln!("not tested here: one CPU");
        return;
    }
    let mut host = by_affinity(linux, two);
    // Each has more threads than there are CPUs, so that some of them wait at every look.
    let spin = "(while :; do :; done) & (while :; do :; done) & while :; do :; done";
    let batch = Guests::start(spin);
    let before = batch.affinity();
    let batch_id = host.attach(workload("batch", Class::BestEffort, batch.selector())).unwrap();
    let policy = AnyPolicy::named("caladan").unwrap();
    let mut stack = Stack::of_one(policy, View::new(host.topology()));
    let mut turn_until = |host: &mut LinuxHost, seen: &dyn Fn(&[Option<WorkloadId>]) -> bool| {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            let wake = stack.turn(host).unwrap();
            if seen(&stack.view().cpus.holder) {
                return true;
            }
            host.wait(wake).unwrap();
        }
        false
    };
    let held = |holder: &[Option<WorkloadId>], id| two.iter().filter(|cpu| holder[cpu.index()] == Some(id)).count();
    assert!(turn_until(&mut host, &|holder| held(holder, batch_id) == 2), "it has what no one else wants");

    let server = Guests::start(spin);
    let web = host.attach(workload("web", Class::LatencyCritical, server.selector())).unwrap();
    assert!(turn_until(&mut host, &|holder| held(holder, web) == 1 && held(holder, batch_id) == 1));
    assert_eq!(batch.affinity().parse::<CpuSet>().unwrap().len(), 1, "it is off the server's CPU");
    assert_eq!(server.affinity(), before);

    drop(server);
    host.detach(web).unwrap();
    assert!(turn_until(&mut host, &|holder| held(holder, batch_id) == 2));
    host.restore();
    assert_eq!(batch.affinity(), before, "nothing is left behind");
}
