//! The agent's cost, each policy at its own interval, on a machine made of plain files: 1,000 workloads of 10 threads,
//! each a cgroup, 20 of them latency-critical. For each policy: this process's CPU time over the time that passed, its
//! loop's share of it, and its resident memory; alone, with an idle API, and with a client that reads it, which is a process of its
//! own. "At rest" are the loop's turns that set nothing.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use quell_agent::api::{About, ApiConfig, Client, ShownPods, wire};
use quell_agent::observers::{ObserverConfig, Observers};
use quell_agent::stack::{Layer, Stack, Witness};
use quell_linux::testkit::FakeTree;
use quell_linux::{HostOptions, LinuxHost};
use quell_model::{Class, CpuCount, Host, Nanos, Selector, Topology, View, Wake, Workload};
use quell_policy::AnyPolicy;
use quell_thread::clock::{cpu_time, process_cpu_time};

const WORKLOADS: usize = 1_000;
const CRITICAL: usize = 20;
const THREADS: usize = 10;
/// Longest time between two turns of the agent; a policy may want to be asked sooner.
const LONGEST_WAIT: Nanos = Nanos::from_millis(100);
const MEASURED: Duration = Duration::from_secs(15);

/// Stands before the socket in the arguments of the client.
const CLIENT: &str = "--client";

/// Of all four policies, or of those that are named.
fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == CLIENT) {
        look(arguments[at + 1].as_ref());
    }
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "policy",
        "",
        "turns a second",
        "CPU",
        "of it the loop",
        "at rest",
        "memory",
    ]);
    for policy in ["none", "rkube", "his", "guard"] {
        if !named.is_empty() && !named.iter().any(|name| name == policy) {
            continue;
        }
        for watched in [None, Some(false), Some(true)] {
            let (cost, what) = (measure(policy, watched), ["", "API", "API, watched"]);
            let what = what[watched.map_or(0, |watched| 1 + usize::from(watched))];
            table.add_row([
                policy.to_owned(),
                what.to_owned(),
                format!("{:.0}", cost.turns),
                format!("{:.1} %", 100.0 * cost.process),
                format!("{:.1} %", 100.0 * cost.thread),
                format!("{:.1} %", 100.0 * cost.rest),
                format!("{:.0} MB", cost.resident / 1e6),
            ]);
        }
    }
    println!("{WORKLOADS} workloads of {THREADS} threads, each policy at its own interval\n{table}");
}

struct Cost {
    /// A second.
    turns: f64,
    process: f64,
    thread: f64,
    /// Of the turns in which the loop set nothing.
    rest: f64,
    resident: f64,
}

fn measure(policy: &str, watched: Option<bool>) -> Cost {
    let (tree, mut host) = machine();
    let socket = tree.path().join("api.sock");
    let layers = vec![Layer::new(AnyPolicy::named(policy).expect("a policy"), None)];
    let mut stack = Stack::new(layers, View::new(host.topology()), host.topology().all()).expect("one layer");
    let api = watched.map(|_| ApiConfig { socket: socket.clone(), ..ApiConfig::default() });
    let observed = ObserverConfig { api, front: None, attribution: None, pods: ShownPods::default(), record: None };
    let (mut observers, _feed) = Observers::start(&observed, About::default(), &mut stack).expect("observers");
    let client = (watched == Some(true)).then(|| Looks::begin(&socket));
    for _ in 0..10 {
        turn(&mut stack, &mut host, &mut observers);
    }
    let clocks = || [process_cpu_time(), cpu_time()].map(Nanos::as_secs_f64);
    let (before, begun) = (clocks(), Instant::now());
    let (mut turns, mut rest) = (0.0, [Duration::ZERO, Duration::ZERO]);
    while begun.elapsed() < MEASURED {
        let (spent, from) = (cpu_time(), Instant::now());
        turn(&mut stack, &mut host, &mut observers);
        turns += 1.0;
        if stack.stepped().all(|layer| layer.plan.knobs.is_empty()) {
            rest[0] += Duration::from(cpu_time() - spent);
            rest[1] += from.elapsed();
        }
    }
    let (after, passed) = (clocks(), begun.elapsed().as_secs_f64());
    drop(client);
    let share = |clock: usize| (after[clock] - before[clock]) / passed;
    let rest = rest[0].as_secs_f64() / rest[1].as_secs_f64();
    Cost { turns: turns / passed, process: share(0), thread: share(1), rest, resident: resident_bytes() }
}

fn turn(stack: &mut Stack, host: &mut LinuxHost, observers: &mut Observers) {
    let wake = stack.turn(host).expect("a turn");
    observers.turned(stack.view(), stack.layers());
    host.wait(wake.sooner(Wake::At(stack.view().now + LONGEST_WAIT))).expect("a wait");
}

/// A process that looks. It ends when this is dropped.
struct Looks(Child);

impl Looks {
    fn begin(socket: &Path) -> Looks {
        let own = std::env::current_exe().expect("this program");
        Looks(Command::new(own).arg(CLIENT).arg(socket).spawn().expect("a process"))
    }
}

impl Drop for Looks {
    fn drop(&mut self) {
        assert!(self.0.try_wait().expect("its state").is_none(), "the client ended");
        self.0.kill().and_then(|()| self.0.wait()).expect("it ends");
    }
}

/// What `quell top` does: asks for everything once a second.
fn look(socket: &Path) -> ! {
    let client = Client::new(socket).expect("a client");
    loop {
        let status: wire::Status = client.get("/v1/status").expect("the API answers");
        assert!([0, WORKLOADS].contains(&status.workloads.len()), "none before the first turn, then all");
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn machine() -> (FakeTree, LinuxHost) {
    let tree = FakeTree::new(&Topology::synthetic(1, 2, 24, 2));
    for at in 0..WORKLOADS {
        let (pid, group) = (100_000 + (at * THREADS) as i32, format!("work/w{at}"));
        tree.process(pid, 1, "work");
        (1..THREADS as i32).for_each(|thread| tree.thread(pid, pid + thread));
        tree.cgroup(&group);
        tree.join(&group, &[pid]);
    }
    let mut host = tree.host(HostOptions::default()).expect("a host");
    for at in 0..WORKLOADS {
        let critical = at < CRITICAL;
        let class = if critical { Class::LatencyCritical } else { Class::BestEffort };
        let mut workload = Workload::new(format!("w{at}"), class, CpuCount::whole(u32::from(critical)));
        workload.selectors.push(Selector::Cgroup(format!("work/w{at}").into()));
        host.attach(workload).expect("its cgroup is there");
    }
    (tree, host)
}

fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("resident memory");
    line.trim().trim_end_matches("kB").trim().parse::<f64>().expect("a number") * 1024.0
}
