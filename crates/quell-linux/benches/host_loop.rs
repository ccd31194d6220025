//! One turn of the loop (observe, step, apply) on machines made of plain files: 10, 100 and 1,000 workloads of 10
//! threads, each a cgroup. The policy asks for every thread's times and changes one workload's weight in every turn, or
//! all workloads' weights. The control opens and reads the same files of the threads and does nothing else: how much of
//! the growth is the file system's. What is measured is this thread's CPU time: others on the machine do not count.

#![allow(missing_docs, reason = "criterion's macros make a public function")]

use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quell_linux::testkit::FakeTree;
use quell_linux::{HostOptions, LinuxHost};
use quell_model::{
    Class, CpuCount, Description, Event, Knob, KnobKind, KnobSetting, Nanos, Need, Plan, Policy, Selector, Signal,
    Stack, Target, Topology, View, Wake, Workload,
};

const THREADS: usize = 10;

static DESCRIPTION: Description = Description {
    name: "weights",
    summary: "changes weights to and fro",
    source: "",
    interval: Nanos::ZERO,
    signals: &[Need::must(Signal::Threads), Need::must(Signal::RunTime), Need::must(Signal::RunDelay)],
    knobs: &[Need::must(KnobKind::Weight)],
    rules: &[],
    keys: &[],
    grants: false,
};

/// Changes the weights of this many workloads in every step.
struct Weights {
    changes: usize,
    steps: u32,
}

impl Policy for Weights {
    fn describe(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn step(&mut self, view: &View, _: &[Event], plan: &mut Plan) -> Wake {
        self.steps += 1;
        for (id, _) in view.owned().take(self.changes) {
            let knob = Knob::Weight(100 + self.steps % 2);
            plan.knobs.push(KnobSetting { target: Target::Workload(id), knob });
        }
        Wake::At(view.now)
    }
}

fn machine(workloads: usize, scan_interval: Nanos) -> (FakeTree, LinuxHost) {
    let tree = FakeTree::new(&Topology::synthetic(1, 2, 12, 2));
    // No number is given out again.
    tree.write("proc/sys/kernel/ns_last_pid", "4000000");
    tree.write("proc/sys/kernel/pid_max", "4194304");
    for at in 0..workloads {
        let (pid, group) = (100_000 + (at * THREADS) as i32, format!("work/w{at}"));
        tree.process(pid, 1, "work");
        (1..THREADS as i32).for_each(|thread| tree.thread(pid, pid + thread));
        tree.cgroup(&group);
        tree.join(&group, &[pid]);
    }
    let mut host = tree.host(HostOptions { scan_interval, ..HostOptions::default() }).expect("a host");
    for at in 0..workloads {
        let mut workload = Workload::new(format!("w{at}"), Class::BestEffort, CpuCount::ZERO);
        workload.selectors.push(Selector::Cgroup(format!("work/w{at}").into()));
        host.attach(workload).expect("its cgroup is there");
    }
    (tree, host)
}

/// Opens and reads the two files of each thread that a turn reads.
fn files_alone(tree: &FakeTree, workloads: usize) -> impl FnMut() {
    let process = |at: usize| 100_000 + at / THREADS * THREADS;
    let paths: Vec<PathBuf> = (0..workloads * THREADS)
        .flat_map(|at| ["schedstat", "stat"].map(|file| format!("proc/{}/task/{}/{file}", process(at), 100_000 + at)))
        .map(|path| tree.path().join(path))
        .collect();
    let mut text = [0; 4096];
    move || {
        for path in &paths {
            let mut file = File::open(path).expect("it is there");
            while file.read(&mut text).expect("it can be read") > 0 {}
        }
    }
}

fn turns(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("observe+step+apply");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    let never = Nanos::from_secs(1_000_000);
    let kinds =
        [("one weight", Some(1), never), ("all weights", None, never), ("all weights, scan", None, Nanos::ZERO)];
    for workloads in [10, 100, 1_000] {
        group.throughput(Throughput::Elements((workloads * THREADS) as u64));
        let (tree, _) = machine(workloads, never);
        let mut control = files_alone(&tree, workloads);
        group.bench_function(BenchmarkId::new("control", workloads), |bencher| bencher.iter(&mut control));
        for (name, changes, scan_interval) in kinds {
            let (_tree, mut host) = machine(workloads, scan_interval);
            let weights = Weights { changes: changes.unwrap_or(workloads), steps: 0 };
            let mut stack = Stack::of_one(weights, View::new(host.topology()));
            group.bench_function(BenchmarkId::new(name, workloads), |bencher| {
                bencher.iter(|| {
                    stack.turn(&mut host).expect("a turn");
                    assert_eq!(stack.first().refusals().count(), 0);
                    black_box(stack.view().threads.len())
                });
            });
            // None if this one was not asked for.
            assert!([0, workloads * THREADS].contains(&stack.view().threads.len()));
        }
    }
    group.finish();
}

/// CPU time of the calling thread.
struct CpuTime;

impl CpuTime {
    fn now() -> Duration {
        quell_linux::cpu_time().into()
    }
}

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        CpuTime::now()
    }

    fn end(&self, start: Duration) -> Duration {
        CpuTime::now() - start
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = turns
}
criterion_main!(benches);
