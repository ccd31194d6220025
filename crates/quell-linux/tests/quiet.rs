//! What is not read: the threads of workloads that used no CPU time. A machine of plain files.

use quell_linux::testkit::FakeTree;
use quell_linux::{HostOptions, LinuxHost, cpu_time};
use quell_model::{Class, CpuCount, Host, Nanos, Sample, Selector, Signal, SignalSet, Topology, View, Workload};

const CRITICAL: SignalSet = SignalSet::of(&[Signal::CriticalThreads]);
const THREADS: i32 = 10;

/// This many workloads of ten threads, each a cgroup; this many of them are latency-critical.
fn machine(workloads: i32, critical: i32) -> (FakeTree, LinuxHost) {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 4, 1));
    for at in 0..workloads {
        let (pid, group) = (1_000 + at * THREADS, format!("jobs/w{at}"));
        tree.process(pid, 1, "work");
        (1..THREADS).for_each(|thread| tree.thread(pid, pid + thread));
        tree.cgroup(&group);
        tree.join(&group, &[pid]);
    }
    let mut host = tree.host(HostOptions::default()).unwrap();
    for at in 0..workloads {
        let class = if at < critical { Class::LatencyCritical } else { Class::BestEffort };
        let mut workload = Workload::new(format!("w{at}"), class, CpuCount::ZERO);
        workload.selectors.push(Selector::Cgroup(format!("jobs/w{at}").into()));
        host.attach(workload).unwrap();
    }
    (tree, host)
}

fn used(tree: &FakeTree, at: i32, micros: u64) {
    tree.write(format!("cgroup/jobs/w{at}/cpu.stat"), &format!("usage_usec {micros}\nuser_usec 0"));
}

#[test]
fn threads_of_a_workload_that_used_nothing_are_not_read() {
    let (tree, mut host) = machine(2, 2);
    let mut view = View::new(host.topology());
    let mut times = |host: &mut LinuxHost| -> Vec<Nanos> {
        host.observe(CRITICAL, &mut view, &mut Vec::new()).unwrap();
        assert_eq!(view.threads.len(), 20);
        view.threads.run_time.clone()
    };
    // The first time every thread is read, the second time the cgroups are known.
    assert_eq!(times(&mut host), [Nanos::ZERO; 20]);
    for (pid, tid) in [(1_000, 1_003), (1_010, 1_013)] {
        tree.ran(pid, tid, 5_000, 0);
    }
    used(&tree, 0, 5);
    let seen = times(&mut host);
    assert_eq!((seen[3], seen[13]), (Nanos(5_000), Nanos::ZERO), "the second one's cgroup used nothing");
    used(&tree, 1, 5);
    assert_eq!(times(&mut host)[13], Nanos(5_000));
}

#[test]
fn what_their_cgroups_counted_is_known_too() {
    let (tree, mut host) = machine(2, 1);
    let mut view = View::new(host.topology());
    let wanted = CRITICAL.union(SignalSet::of(&[Signal::CriticalRunTime]));
    let mut seen = |host: &mut LinuxHost| -> Vec<Option<Nanos>> {
        host.observe(wanted, &mut view, &mut Vec::new()).unwrap();
        view.workloads.critical_run_time.iter().map(Sample::usable).collect()
    };
    used(&tree, 0, 5);
    assert_eq!(seen(&mut host), [Some(Nanos::ZERO), None], "the second one is not latency-critical");
    used(&tree, 0, 12);
    assert_eq!(seen(&mut host)[0], Some(Nanos::from_micros(7)), "what was used before the first look is no one's");
    // A cgroup of another workload below counts in the one above.
    tree.process(5_000, 1, "inner");
    tree.cgroup("jobs/w0/inner");
    tree.join("jobs/w0/inner", &[5_000]);
    let mut workload = Workload::new("inner", Class::BestEffort, CpuCount::ZERO);
    workload.selectors.push(Selector::Cgroup("jobs/w0/inner".into()));
    host.attach(workload).unwrap();
    assert_eq!(seen(&mut host), [None; 3]);
}

#[test]
fn all_are_read_where_a_thread_may_belong_elsewhere_than_its_cgroup() {
    let (tree, mut host) = machine(1, 1);
    tree.process(900, 1, "chosen");
    let mut workload = Workload::new("chosen", Class::BestEffort, CpuCount::ZERO);
    workload.selectors.push(Selector::Pid(900));
    host.attach(workload).unwrap();
    let mut view = View::new(host.topology());
    for round in 1..4 {
        tree.ran(1_000, 1_004, round * 1_000, 0);
        host.observe(CRITICAL, &mut view, &mut Vec::new()).unwrap();
    }
    let ran = view.threads.run_time.iter().copied().max().unwrap();
    assert!(ran >= Nanos(2_000), "{ran}");
}

/// Wide: this is a debug build, and what it prints is a fifth of the bound where nothing else runs.
#[test]
fn a_look_at_a_thousand_workloads_is_cheap_where_few_are_watched() {
    let (_tree, mut host) = machine(1_000, 20);
    let mut view = View::new(host.topology());
    let mut look = || host.observe(CRITICAL, &mut view, &mut Vec::new()).unwrap();
    (0..5).for_each(|_| look());
    let begun = cpu_time();
    (0..50).for_each(|_| look());
    let each = Nanos((cpu_time() - begun).0 / 50);
    println!("{each} a look");
    assert!(each < Nanos::from_millis(8), "{each}");
}
