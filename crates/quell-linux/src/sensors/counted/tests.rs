//! Rates from counts; and counting itself on this machine's kernel, with clocks as events, which need no PMU.

use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use perf_event_open_sys::bindings::{PERF_COUNT_SW_CPU_CLOCK, PERF_TYPE_SOFTWARE};
use quell_model::{Class, CpuCount, Host, Selector, SignalSet, Topology, View, Workload, WorkloadId};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::process::{Pid, Signal as Kill, kill_process};

use super::*;
use crate::perf::{Event, events_of};
use crate::testkit::FakeTree;
use crate::{HostOptions, LinuxHost, Roots, clock};

const WORKLOADS: usize = 40;
const WANTED: SignalSet = SignalSet::of(&COUNTED);
/// Nanoseconds of a CPU: each event counts them.
const CLOCK: Event = Event { kind: PERF_TYPE_SOFTWARE, config: [PERF_COUNT_SW_CPU_CLOCK as u64, 0, 0] };

fn time(enabled: u64, running: u64) -> CounterTime {
    CounterTime { enabled: Nanos(enabled), running: Nanos(running) }
}

#[test]
fn counters_that_had_to_share_make_an_estimate() {
    let between = |now, before| Share::between(now, before, false);
    assert_eq!(between(time(300, 200), time(100, 100)), Share { times: 2.0, quality: Quality::Estimated });
    assert_eq!(between(time(300, 300), time(100, 100)), Share { times: 1.0, quality: Quality::Exact });
    let waited = between(time(300, 100), time(100, 100));
    assert_eq!(waited.quality, Quality::Stale, "other programs had the hardware all the time");
}

#[test]
fn counters_that_are_gone_leave_nothing_to_act_on() {
    let never = Share::between(time(0, 0), time(0, 0), false);
    assert_eq!(never.quality, Quality::Absent);
    let some = Share::between(time(300, 300), time(100, 100), true);
    assert_eq!(some.quality, Quality::Stale, "some of it is missing");
    let anew = Share::between(time(50, 50), time(100, 100), false);
    assert_eq!(anew.quality, Quality::Stale, "they began anew");
}

#[test]
fn hits_and_bandwidth_are_of_references_and_misses() {
    let mut of = OfWorkload::default();
    let (second, whole) = (Nanos::from_secs(1), [Share { times: 1.0, quality: Quality::Exact }; COUNTED_EVENTS]);
    of.rates([2_000, 1_000, 400, 100, 0], &whole, second, second);
    assert_eq!((of.instructions.usable(), of.cycles.usable()), (Some(2_000.0), Some(1_000.0)));
    assert_eq!((of.hit_ratio.usable(), of.hit_ratio.window), (Some(0.75), second));
    assert_eq!((of.bandwidth.usable(), of.bandwidth.quality), (Some(BytesPerSecond(6_400.0)), Quality::Estimated));
    of.rates([0; COUNTED_EVENTS], &whole, second, second);
    assert_eq!((of.hit_ratio.value, of.hit_ratio.quality), (0.75, Quality::Stale), "it did not run");
    assert_eq!(of.instructions.usable(), Some(0.0));
    let half = [Share { times: 2.0, quality: Quality::Estimated }; COUNTED_EVENTS];
    of.rates([50; COUNTED_EVENTS], &half, second, second);
    assert_eq!((of.instructions.usable(), of.instructions.quality), (Some(100.0), Quality::Estimated));
}

/// Counts how often a file is opened.
struct Opened(rustix::fd::OwnedFd);

impl Opened {
    fn watch(path: &Path) -> Opened {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        // The end of each reading is an event, too: two beginnings in a row would be one.
        inotify::add_watch(&watch, path, WatchFlags::OPEN | WatchFlags::CLOSE).unwrap();
        Opened(watch)
    }

    fn count(&self) -> usize {
        let mut buffer = [MaybeUninit::uninit(); 1 << 16];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let is_open = |event: inotify::Event<'_>| event.events().contains(ReadFlags::OPEN);
        let mut count = 0;
        while let Ok(event) = reader.next() {
            count += usize::from(is_open(event));
        }
        count
    }
}

/// A machine with an entry of this many bytes for each CPU in /proc/cpuinfo.
fn machine(cpus: u32, bytes: usize) -> FakeTree {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, cpus, 1));
    let entry = |cpu| {
        let flags = "flag ".repeat(bytes / 5);
        format!("processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nflags\t\t: {flags}\n\n")
    };
    tree.write("proc/cpuinfo", &(0..cpus).map(entry).collect::<String>());
    tree
}

#[test]
fn the_make_is_read_once_and_events_are_chosen_once_a_cpu() {
    let tree = machine(4, 100);
    let mut members = Members::new(tree.roots(), HostOptions::default()).unwrap();
    let opened = Opened::watch(&tree.path().join("proc/cpuinfo"));
    let chosen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&chosen);
    let choose = move |processor: &crate::perf::Processor, roots: &Roots, cpu| {
        count.fetch_add(1, Ordering::Relaxed);
        events_of(processor, roots, cpu)
    };
    let mut sensor = CountedSensor::with(Box::new(Kernel), Chosen::by(Box::new(choose)));
    let all = members.online;
    let mut looks = |members: &Members| {
        (0..20).for_each(|_| assert_eq!(sensor.mask(WANTED, members), 0b11111));
    };
    looks(&members);
    assert_eq!((chosen.load(Ordering::Relaxed), opened.count()), (4, 1));
    members.online = all.difference(&CpuSet::one(CpuId(3)));
    looks(&members);
    members.online = all;
    looks(&members);
    assert_eq!((chosen.load(Ordering::Relaxed), opened.count()), (5, 0), "one came online again");
}

/// For `valgrind --tool=callgrind`: looks of `edgeiso` at two services and two batch workloads, on a made-up machine.
#[test]
#[ignore = "a measurement: QUELL_LOOKS and QUELL_CPUS"]
fn looks_of_edgeiso() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let (looks, cpus) = (number("QUELL_LOOKS").unwrap_or(1), number("QUELL_CPUS").unwrap_or(2));
    let tree = machine(cpus, 1_300);
    let mut host = tree.host(HostOptions::default()).unwrap();
    for at in 0..4 {
        let (pid, class) = (100 + at, if at < 2 { Class::LatencyCritical } else { Class::BestEffort });
        tree.process(pid, 1, "worker");
        let mut workload = Workload::new(format!("w{at}"), class, CpuCount::ZERO);
        workload.selectors.push(Selector::Pid(pid));
        host.attach(workload).unwrap();
    }
    let wanted = quell_policy::edgeiso::EdgeIso::DESCRIPTION.signal_set();
    let mut view = View::new(host.topology());
    for _ in 0..looks {
        host.observe(wanted, &mut view, &mut Vec::new()).unwrap();
        // Only on this machine's own threads is it a part of the observation.
        assert_eq!(host.sensors.traced.counted.mask(wanted, &host.members), 0b1111);
    }
}

/// A process that computes a little and waits a little, without children.
struct Worker(Child);

impl Worker {
    fn start(number: usize) -> Worker {
        let script = format!(
            "exec 3<> <(:); while :; do for ((i = 0; i < {}; i++)); do :; done; read -t 0.1 -u 3; done",
            3000 + 100 * number
        );
        let mut command = Command::new("bash");
        command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Worker(command.spawn().expect("bash is here"))
    }

    fn send(&self, signal: Kill) {
        kill_process(Pid::from_child(&self.0), signal).expect("it lives");
    }

    fn read(&self, file: &str) -> String {
        let pid = self.0.id();
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/{file}")).expect("it lives")
    }

    /// Its time on CPUs as the kernel's scheduler has it.
    fn run_time(&self) -> u64 {
        self.read("schedstat").split(' ').next().and_then(|text| text.parse().ok()).expect("a time")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn stop(workers: &[Worker]) {
    workers.iter().for_each(|worker| worker.send(Kill::STOP));
    let begun = Instant::now();
    for worker in workers {
        while !worker.read("stat").contains(") T ") {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", worker.read("stat"));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn observe(host: &mut LinuxHost) -> View {
    let mut view = View::new(host.topology());
    host.observe(WANTED, &mut view, &mut Vec::new()).unwrap();
    view
}

/// Counts so far, of each workload.
fn counts(host: &mut LinuxHost) -> Vec<Counts> {
    std::thread::sleep(Duration::from_millis(WINDOW.0 / 1_000_000 + 1));
    observe(host);
    host.sensors.traced.counted.workloads.iter().map(|of| of.before.unwrap()).collect()
}

/// How long it counts: `QUELL_COUNTING_SECONDS`, or a little.
fn duration() -> Duration {
    let seconds = std::env::var("QUELL_COUNTING_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
}

#[test]
fn clocks_as_events_agree_with_the_schedulers_own_accounts() {
    if let Some((why, _)) = quell_trace::obstacle() {
        eprintln!("not tested here: {why}");
        return;
    }
    let mut host =
        LinuxHost::new(Roots::default(), HostOptions { threads_only: true, ..HostOptions::default() }).unwrap();
    host.sensors.traced.counted =
        CountedSensor::with(Box::new(Kernel), Chosen::by(Box::new(|_, _, _| [Some(CLOCK); COUNTED_EVENTS])));
    let workers: Vec<Worker> = (0..WORKLOADS).map(Worker::start).collect();
    // Until each computes.
    std::thread::sleep(Duration::from_millis(300));
    stop(&workers);
    for (number, worker) in workers.iter().enumerate() {
        let mut workload = Workload::new(format!("w{number}"), Class::BestEffort, CpuCount::ZERO);
        workload.selectors.push(Selector::Pid(worker.0.id() as i32));
        host.attach(workload).unwrap();
    }
    observe(&mut host);
    let open = host.sensors.traced.counted.open.iter().flatten().flatten().count();
    assert_eq!(open, COUNTED_EVENTS * host.members.online.len(), "five a CPU, however many workloads");
    let (before, ran) = (counts(&mut host), workers.iter().map(Worker::run_time).collect::<Vec<_>>());
    workers.iter().for_each(|worker| worker.send(Kill::CONT));
    let (begun, cpu, mut view) = (Instant::now(), clock::cpu_time(), View::new(host.topology()));
    while begun.elapsed() < duration() {
        std::thread::sleep(Duration::from_millis(100));
        host.observe(WANTED, &mut view, &mut Vec::new()).unwrap();
    }
    let share = (clock::cpu_time() - cpu).as_secs_f64() / begun.elapsed().as_secs_f64();
    stop(&workers);
    let after = counts(&mut host);
    let (mut all, mut all_ran, mut worst) = (0u64, 0u64, 0f64);
    for number in 0..WORKLOADS {
        let time = (workers[number].run_time() - ran[number]) as f64;
        for event in 0..COUNTED_EVENTS {
            let counted = (after[number][event] - before[number][event]) as f64;
            worst = worst.max((counted / time - 1.0).abs());
        }
        all += after[number][0] - before[number][0];
        all_ran += time as u64;
    }
    let difference = all as f64 / all_ran as f64 - 1.0;
    println!(
        "{WORKLOADS} workloads, {:.1} s of CPU time in {:.0?}: counted {:+.3} %, the worst workload {:.3} %; observing took \
         {:.2} % of a CPU",
        all_ran as f64 / 1e9,
        begun.elapsed(),
        difference * 100.0,
        worst * 100.0,
        share * 100.0
    );
    assert!(all_ran > 10_000_000 * duration().as_secs(), "they did not run: {all_ran} ns");
    assert!(difference.abs() < 0.01, "{difference}");
    lost(&mut host, &workers);
}

/// Counters that are taken away in mid-run leave nothing to act on, and are opened again.
fn lost(host: &mut LinuxHost, workers: &[Worker]) {
    workers.iter().for_each(|worker| worker.send(Kill::CONT));
    counts(host);
    std::thread::sleep(Duration::from_millis(200));
    assert!(observe(host).workloads.instruction_rate.iter().all(|rate| rate.usable().is_some()));
    let trace = host.sensors.traced.collector().expect("it traces");
    host.members
        .online
        .iter()
        .for_each(|cpu| (0..COUNTED_EVENTS).for_each(|event| trace.count_by(cpu, event, None).unwrap()));
    let begun = Instant::now();
    let until = |host: &mut LinuxHost, there: bool| {
        while observe(host).workloads.instruction_rate[..WORKLOADS].iter().any(|rate| rate.usable().is_some() != there)
        {
            assert!(begun.elapsed() < Duration::from_secs(30), "never {there}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    until(host, false);
    until(host, true);
    assert!(host.workloads().all(|(id, _)| id < WorkloadId(WORKLOADS as u32)));
}
