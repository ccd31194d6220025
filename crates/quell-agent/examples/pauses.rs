//! Which of two antagonists streams, found by pauses on this machine: a server, a streaming and a computing process are started,
//! and `edgeiso` searches, again and again.
//!
//! ```sh
//! cargo run -p quell-agent --example pauses -- 20
//! ```
//!
//! It needs root, for the classes and stop signals of other processes, and prints a line a run: what was named, and the medians of
//! memory's canary without a pause and in the pauses of each.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{
    Class, CpuCount, Event, Host, LeaseLimits, LeaseRequest, Nanos, Selector, Signal, SignalSet, Stack, View, Wake,
    Workload, WorkloadId,
};
use quell_policy::edgeiso::pausing::Named;
use quell_policy::edgeiso::searching::Searching;
use quell_policy::edgeiso::{EdgeIso, EdgeIsoConfig};

/// A search takes seconds; on a busy machine longer.
const PATIENCE: Duration = Duration::from_secs(120);
/// The server's solo run is over by then.
const BEGIN: Nanos = Nanos::from_secs(5);
/// More than any cache has.
const STREAMED: usize = 256 << 20;
const ROLES: [&str; 3] = ["server", "stream", "compute"];

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_default();
    match argument.as_str() {
        "server" => serve(),
        "stream" => stream(),
        "compute" => compute(),
        runs => search(runs.parse().unwrap_or(20)),
    }
}

fn stream() {
    let mut memory = vec![0u8; STREAMED];
    for round in 0u8.. {
        memory.fill(round);
        memory.copy_within(0..STREAMED / 2, STREAMED / 2);
        if round == u8::MAX {
            return stream();
        }
    }
}

fn compute() {
    let mut value = 1u64;
    loop {
        value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// A request a millisecond: some reads in a working set of 16 MiB.
fn serve() {
    let memory = vec![1u8; 16 << 20];
    let mut at = 1usize;
    loop {
        for _ in 0..2_000 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::hint::black_box(memory[at % memory.len()]);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The processes; they end when this is dropped.
struct Processes(Vec<Child>);

impl Processes {
    fn start() -> Processes {
        let own = std::env::current_exe().expect("this program has a path");
        Processes(ROLES.iter().map(|role| Command::new(&own).arg(role).spawn().expect("it starts")).collect())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Values of the canary: without a pause, and in the pauses of each process.
#[derive(Default)]
struct Canary([Vec<f64>; 4]);

impl Canary {
    fn median(&mut self, of: usize) -> f64 {
        let values = &mut self.0[of];
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

fn search(runs: u32) {
    let mut right = 0;
    let (mut wrong, mut none) = (0, 0);
    for run in 1..=runs {
        let (named, mut canary, took) = one_search();
        match named {
            Some(Named::One(WorkloadId(1))) => right += 1,
            Some(Named::One(_)) => wrong += 1,
            _ => none += 1,
        }
        println!(
            "{run:>3}: {:<24} {:>4.1} s; canary {:.2}, stream paused {:.2}, compute paused {:.2}",
            named.map_or("no end".into(), |named| format!("{named:?}")),
            took.as_secs_f64(),
            canary.median(3),
            canary.median(1),
            canary.median(2),
        );
    }
    println!("{right} of {runs} named right, {wrong} wrong, {none} without a name");
}

fn one_search() -> (Option<Named>, Canary, Duration) {
    let processes = Processes::start();
    let leases = LeaseLimits { duty_per_mille: 500, ..LeaseLimits::default() };
    let mut host =
        LinuxHost::new(Roots::default(), HostOptions { leases, ..HostOptions::default() }).expect("this machine");
    for (child, role) in processes.0.iter().zip(ROLES) {
        let class = if role == "server" { Class::LatencyCritical } else { Class::BestEffort };
        let mut workload = Workload::new(role, class, CpuCount::ZERO);
        workload.selectors.push(Selector::Pid(child.id() as i32));
        host.attach(workload).expect("it runs");
    }
    let policy = Searching::new(EdgeIso::new(EdgeIsoConfig::default()), host.now() + BEGIN);
    let mut stack = Stack::of_one(policy, View::new(host.topology()));
    stack.also_measure(SignalSet::of(&[Signal::MemorySlowdown]), quell_linux::cpu_time);
    let (mut canary, mut paused, began) = (Canary::default(), 3, Instant::now());
    let mut named = None;
    while named.is_none() && began.elapsed() < PATIENCE {
        let wake = stack.turn(&mut host).expect("the machine can be seen");
        let (view, layer) = (stack.view(), stack.first());
        if let Some(times) = view.machine.memory_slowdown.usable() {
            canary.0[paused].push(times);
        }
        for lease in &layer.plan.leases {
            if let LeaseRequest::Begin(lease) = lease {
                paused = lease.only.map_or(0, |only| only.index());
            }
        }
        if layer.events.iter().any(|event| matches!(event, Event::SoloEnded(..))) {
            paused = 3;
        }
        named = layer.policy.policy.named(view.now);
        host.wait(wake.sooner(Wake::At(view.now + Nanos::from_millis(100)))).expect("it waits");
    }
    let report = host.restore();
    assert!(report.left.is_empty(), "{report:?}");
    drop(processes);
    (named, canary, began.elapsed())
}
