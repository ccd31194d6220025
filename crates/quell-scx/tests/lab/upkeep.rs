//! The kernel's threads of one CPU, beside latency-critical work.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use quell_guest::{Lockstep, lab_tests};
use quell_model::Class;

use crate::support::*;

/// A kworker of each CPU runs, and this waits for all, for this long.
fn refresh() -> Duration {
    let start = Instant::now();
    fs::read("/proc/sys/vm/stat_refresh").unwrap();
    start.elapsed()
}

const TRACING: &str = "/sys/kernel/tracing";
const SERVER: &str = "127.0.0.1:4711";
/// A sender rests for this many microseconds after each twenty packets.
static REST: AtomicU64 = AtomicU64::new(0);

fn set(path: &str, value: &str) {
    fs::write(path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Takes packets, and never sleeps.
fn serves() {
    let socket = UdpSocket::bind(SERVER).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut packet = [0; 64];
    loop {
        let _ = socket.recv(&mut packet);
    }
}

fn floods() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let rest = Duration::from_micros(REST.load(Relaxed));
    loop {
        for _ in 0..20 {
            let _ = socket.send_to(&[0; 32], SERVER);
        }
        std::thread::sleep(rest);
    }
}

/// Packets of CPU 0 are CPU 1's work, and few of them at a time are done outside of its ksoftirqd.
fn packets_go_to_ksoftirqd() {
    set("/sys/class/net/lo/queues/rx-0/rps_cpus", "2");
    set("/proc/sys/net/core/dev_weight", "1");
    set("/proc/sys/net/core/netdev_budget", "1");
}

/// Times from when CPU 1's ksoftirqd could run until it ran, ascending, while this passes.
fn waits(milliseconds: u64) -> Vec<Duration> {
    if !fs::exists(format!("{TRACING}/events")).unwrap() {
        assert!(Command::new("mount").args(["-t", "tracefs", "tracefs", TRACING]).status().unwrap().success());
    }
    let file = |name: &str| format!("{TRACING}/{name}");
    set(&file("tracing_on"), "0");
    set(&file("trace"), "");
    set(&file("buffer_size_kb"), "16384");
    set(&file("events/sched/sched_waking/filter"), "comm == \"ksoftirqd/1\"");
    set(&file("events/sched/sched_switch/filter"), "prev_comm == \"ksoftirqd/1\" || next_comm == \"ksoftirqd/1\"");
    let enable = |value: &str| {
        ["waking", "switch"].iter().for_each(|event| set(&file(&format!("events/sched/sched_{event}/enable")), value));
        set(&file("tracing_on"), value);
    };
    enable("1");
    pass(milliseconds);
    enable("0");
    let mut ready: Option<u64> = None;
    let mut waits = Vec::new();
    for line in fs::read_to_string(file("trace")).unwrap().lines().filter(|line| !line.starts_with('#')) {
        let Some((before, event)) = line.split_once(": sched_") else { continue };
        let (seconds, micros) = before.rsplit(' ').next().and_then(|at| at.split_once('.')).unwrap();
        let at = seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap();
        if event.starts_with("waking") {
            ready.get_or_insert(at);
        } else if event.contains("next_comm=ksoftirqd/1") {
            waits.extend(ready.take().map(|since| Duration::from_micros(at - since)));
        } else {
            // It lost the CPU and could go on, or it sleeps.
            ready = event.contains("prev_state=R").then_some(at);
        }
    }
    waits.sort();
    waits
}

lab_tests! {
    mod ksoftirqd {
        machine: quell_guest::Machine {
            kernel: std::env::var("QUELL_TEST_KERNEL").ok(),
            ..quell_guest::Machine::measuring(2, Lockstep { serial: false, mips: 250, quantum_ns: 10_000 }, Vec::new())
        };

        #[ignore = "a boot in lock-step time: make soak"]
        fn ksoftirqd_runs_at_once_beside_a_flooded_server() {
            let _first = RealTime::begin();
            packets_go_to_ksoftirqd();
            let group = Group::new("lc");
            let mut machine = Machine::load();
            let lc = machine.attach("lc", Class::LatencyCritical);
            machine.apply(&rights(lc, 1, 1, 0), &[]);
            let server = Child::run(Some(&group), Some(1), serves);
            for (what, rest) in [("bursts", 1_000), ("a flood", 0)] {
                REST.store(rest, Relaxed);
                let sender = Child::run(None, Some(0), floods);
                pass(300);
                let (before, start) = (server.ran(), Instant::now());
                let waits = waits(4_000);
                let share = (server.ran() - before).as_micros() * 1000 / start.elapsed().as_micros();
                drop(sender);
                let at = |share: usize| waits[(waits.len() - 1) * share / 1000];
                println!(
                    "ksoftirqd beside {what}: {} waits, median {:?}, p99 {:?}, longest {:?}; the server has {share}",
                    waits.len(),
                    at(500),
                    at(990),
                    at(1000)
                );
                machine.scx().grant().check().unwrap();
                assert!(waits.len() > 50, "{}", waits.len());
                // Some hundreds of waits: too few for more nines than the longest of them.
                assert!(at(1000).as_micros() <= 1_000, "{:?}", at(1000));
            }
        }

    }
}

lab_tests! {
    mod upkeep {
        machine: guest(2);

        /// As threads of the system they would wait for 50 ms each time.
        fn the_kernels_threads_of_a_cpu_run_at_once_beside_latency_critical_work() {
            let _first = RealTime::begin();
            let group = Group::new("lc");
            let mut machine = Machine::load();
            let lc = machine.attach("lc", Class::LatencyCritical);
            machine.apply(&rights(lc, 2, 2, 0), &[]);
            let servers = [0, 1].map(|_| Child::spin(Some(&group), None));
            pass(200);
            let before = servers.each_ref().map(|server| server.ran());
            let start = Instant::now();
            let mut took: Vec<_> = (0..200).map(|_| { pass(5); refresh() }).collect();
            let span = start.elapsed();
            took.sort();
            let ran: Duration = servers.iter().zip(before).map(|(server, before)| server.ran() - before).sum();
            let share = ran.as_micros() * 1000 / (2 * span.as_micros());
            println!("the kernel's threads: median {:?}, p99 {:?}; the server has {share}", took[100], took[197]);
            machine.scx().grant().check().unwrap();
            assert!(took[100].as_millis() < 10 && took[180].as_millis() < 25, "{:?}", &took[100..]);
            assert!(share > 800, "{share}");
        }
    }
}
