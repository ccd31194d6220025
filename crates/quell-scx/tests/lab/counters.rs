//! What is reported of threads to policies, held against the kernel's own tracepoints.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

use quell_guest::{Lockstep, lab_tests};
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{Class, CpuCount, Host, QueueOrder, Rule, Selector, Signal, SignalSet, View, Workload, WorkloadId};
use quell_scx::{Parts, ScxOptions};

use crate::recorded::{Recorded, Recording};
use crate::support::*;

/// This many of 1,000 may a time differ by …
const OF_1000: u64 = 10;
/// … and so much a turn: the kernel counts times from where a CPU begins to choose, the tracepoint reports when it has chosen. That
/// is 7,000 instructions at most, 250 a microsecond.
const CHOICE_US: u64 = 28;

/// From one thread to the next, there and back.
static PIPES: [AtomicI32; 4] = [const { AtomicI32::new(0) }; 4];

/// Who overtakes comes sooner than that, and before any slice ends.
const AT_ONCE_US: u64 = 250;

fn open_pipes() {
    for ends in [0, 2] {
        let mut pipe = [0; 2];
        // SAFETY: two descriptors on the stack.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        PIPES[ends].store(pipe[0], Relaxed);
        PIPES[ends + 1].store(pipe[1], Relaxed);
    }
}

fn signal(end: usize) {
    // SAFETY: a byte on the stack.
    unsafe { libc::write(PIPES[end].load(Relaxed), [1u8].as_ptr().cast(), 1) };
}

fn await_signal(end: usize) {
    let mut byte = [0u8];
    // SAFETY: a byte on the stack.
    unsafe { libc::read(PIPES[end].load(Relaxed), byte.as_mut_ptr().cast(), 1) };
}

fn work(micros: u64) {
    let end = monotonic().0 + micros * 1000;
    while monotonic().0 < end {}
}

fn nap(micros: u32) {
    // SAFETY: a system call without pointers.
    unsafe { libc::usleep(micros) };
}

fn yields() {
    loop {
        work(1500);
        // SAFETY: a system call without pointers.
        unsafe { libc::sched_yield() };
    }
}

fn sleeps() {
    loop {
        nap(15_000);
        work(3000);
    }
}

fn asks() {
    loop {
        nap(3000);
        signal(1);
        await_signal(2);
        work(1000);
    }
}

fn answers() {
    loop {
        await_signal(0);
        work(700);
        signal(3);
    }
}

/// Threads of two cgroups, one that never rests among each of them.
fn threads_of(groups: &[Group; 2]) -> Vec<Child> {
    open_pipes();
    let mut threads: Vec<Child> = groups.iter().map(|group| Child::spin(Some(group), None)).collect();
    for (one, work) in [(0, yields as fn()), (1, sleeps), (0, sleeps), (0, asks), (1, answers)] {
        threads.push(Child::run(Some(&groups[one]), None, work));
    }
    threads
}

/// What a host says of a thread: run time and delay in µs, then preemptions and late starts.
type Said = BTreeMap<i32, [u64; 4]>;

struct Look {
    threads: Said,
    wake_ups: BTreeMap<(i32, i32), u64>,
    /// By workload, µs.
    run_time: Vec<u64>,
}

fn look(host: &mut LinuxHost, view: &mut View, ids: &[WorkloadId]) -> Look {
    let all = [Signal::Threads, Signal::RunTime, Signal::Preemptions, Signal::LateStarts, Signal::WakeUps];
    host.observe(SignalSet::of(&all), view, &mut Vec::new()).unwrap();
    let columns = &view.threads;
    let said = |row: usize| {
        let counts = [columns.preemptions[row]?, columns.late_starts[row]?];
        let times = [columns.run_time[row], columns.run_delay[row]].map(|time| time.0 / 1000);
        Some((columns.id[row].tid, [times[0], times[1], counts[0], counts[1]]))
    };
    let edges = &columns.wake_ups;
    let edge = |at: usize| ((edges.waker[at].map_or(0, |waker| waker.tid), edges.woken[at].tid), edges.count[at]);
    Look {
        threads: (0..columns.id.len()).filter_map(said).collect(),
        wake_ups: (0..edges.count.len()).map(edge).collect(),
        run_time: ids.iter().map(|id| view.workloads.run_time[id.index()].usable().unwrap().0 / 1000).collect(),
    }
}

fn signal_all(threads: &[Child], signal: i32) {
    threads.iter().for_each(|thread| thread.signal(signal));
}

fn await_stop(thread: &Child) {
    for _ in 0..3000 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", thread.0)).unwrap();
        if stat.rsplit(") ").next().unwrap().starts_with('T') {
            return;
        }
        pass(10);
    }
    panic!("{} does not stop", thread.0);
}

fn is_near(said: u64, reported: u64, turns: u64) -> bool {
    said.abs_diff(reported) <= reported * OF_1000 / 1000 + turns * CHOICE_US
}

/// Has the threads run for some seconds, and holds what the host says of them against the tracepoints.
fn hold(
    host: &mut LinuxHost,
    ids: &[WorkloadId],
    threads: &[Child],
    of: impl Fn(usize) -> usize,
) -> (Recorded, Vec<String>) {
    let mut view = View::new(quell_linux::sysfs::topology("/sys".as_ref()).unwrap().into());
    signal_all(threads, libc::SIGSTOP);
    threads.iter().for_each(await_stop);
    let before = (0..1000)
        .map(|_| {
            pass(10);
            look(host, &mut view, ids)
        })
        .find(|look| threads.iter().all(|thread| look.threads.contains_key(&thread.0)))
        .expect("the host finds its workloads' threads");
    let recording = Recording::begin();
    signal_all(threads, libc::SIGCONT);
    pass(1000);
    signal_all(threads, libc::SIGSTOP);
    threads.iter().for_each(await_stop);
    let recorded = recording.end(&threads.iter().map(|thread| thread.0).collect::<Vec<_>>());
    let after = look(host, &mut view, ids);

    let mut wrong = Vec::new();
    let mut of_workload = vec![[0; 2]; ids.len()];
    for (at, thread) in threads.iter().enumerate() {
        let (tid, reported) = (thread.0, &recorded.threads[&thread.0]);
        let said: Vec<u64> =
            after.threads[&tid].iter().zip(before.threads[&tid]).map(|(after, before)| after - before).collect();
        println!("{tid}: said {said:?}, reported {reported:?}");
        let [run, turns] = &mut of_workload[of(at)];
        (*run, *turns) = (*run + reported.run, *turns + reported.turns);
        let delays = [reported.delay, reported.delay + reported.slept_moved];
        if !is_near(said[0], reported.run, reported.turns)
            || delays.iter().all(|&delay| !is_near(said[1], delay, reported.turns))
        {
            wrong.push(format!("times of {tid}: {said:?}, {reported:?}"));
        }
        if said[2] != reported.preemptions || !(reported.late[0]..=reported.late[1]).contains(&said[3]) {
            wrong.push(format!("counts of {tid}: {said:?}, {reported:?}"));
        }
    }
    let since = |(edge, count): (&(i32, i32), &u64)| (*edge, count - before.wake_ups.get(edge).unwrap_or(&0));
    let woke: BTreeMap<_, _> = after.wake_ups.iter().map(since).filter(|(_, count)| *count > 0).collect();
    println!("wake-ups: {woke:?}; {} by interrupts", recorded.from_interrupts);
    if woke != recorded.wake_ups {
        wrong.push(format!("wake-ups: {woke:?}, {:?}", recorded.wake_ups));
    }
    for (at, [reported, turns]) in of_workload.into_iter().enumerate() {
        let said = after.run_time[at] - before.run_time[at];
        println!("workload {at}: said {said}, reported {reported}");
        if !is_near(said, reported, turns) {
            wrong.push(format!("run time of workload {at}: {said}, {reported}"));
        }
    }
    let reported = recorded.threads.values();
    let [preempted, late] =
        reported.fold([0; 2], |sum, reported| [sum[0] + reported.preemptions, sum[1] + reported.late[0]]);
    assert!(preempted > 100 && late > 0 && woke.len() > 2, "{preempted}, {late}: this shows something");
    (recorded, wrong)
}

fn workload_of(at: usize) -> usize {
    [0, 1, 0, 1, 0, 0, 1][at]
}

fn service(name: &str, class: Class) -> Workload {
    let mut workload = Workload::new(name, class, CpuCount::ZERO);
    workload.selectors = vec![Selector::Cgroup(name.into())];
    workload
}

lab_tests! {
    mod counters {
        machine: quell_guest::Machine {
            settle_s: 1,
            kernel: std::env::var("QUELL_TEST_KERNEL").ok(),
            ..quell_guest::Machine::measuring(2, Lockstep { serial: false, mips: 250, quantum_ns: 40_000 }, Vec::new())
        };

        #[ignore = "a minute of CPU time: make soak"]
        fn on_linuxs_scheduler_they_are_what_the_tracepoints_tell() {
            let _first = RealTime::begin();
            let groups = [Group::new("one"), Group::new("other")];
            let options = HostOptions { include_self: true, ..HostOptions::default() };
            let mut host = LinuxHost::new(Roots::default(), options).unwrap();
            let ids = ["one", "other"].map(|name| host.attach(service(name, Class::LatencyCritical)).unwrap());
            let threads = threads_of(&groups);
            let (_, wrong) = hold(&mut host, &ids, &threads, workload_of);
            assert!(wrong.is_empty(), "{wrong:#?}");
        }

        #[ignore = "a minute of CPU time: make soak"]
        fn where_workloads_hold_cpus_as_one_too_and_so_are_cpus_taken() {
            let _first = RealTime::begin();
            let groups = [Group::new("one"), Group::new("other")];
            let parts = Parts { together: true, ..Parts::default() };
            let mut machine = Machine::with(ScxOptions { parts, ..ScxOptions::default() });
            let ids = ["one", "other"].map(|name| machine.attach(name, Class::LatencyCritical));
            machine.apply(&ids.map(|workload| Rule::Together { workload, leader: Some(ids[0]), order: QueueOrder::Weight }), &[]);
            machine.apply(&rights(ids[0], 1, 1, 0), &[]);
            let threads = threads_of(&groups);
            let before = machine.scx().grant().decisions();
            let (recorded, wrong) = hold(&mut machine.host, &ids, &threads, workload_of);
            let after = machine.scx().grant().decisions();
            let said = after.overtaken - before.overtaken;
            let reported = recorded.takeovers.iter().filter(|taken| taken.after_us < AT_ONCE_US).count() as u64;
            println!("overtaken: said {said}, reported {reported}");
            // A slice that ends, or a yield, just when another thread wakes up looks the same.
            assert!(reported > 50 && said <= reported && (reported - said) * 8 < reported, "overtaken: said {said}, reported {reported}");
            assert!(wrong.is_empty(), "{wrong:#?}");

            let be = Group::new("be");
            let batch = machine.attach("be", Class::BestEffort);
            machine.apply(&rights(batch, 0, 2, 1), &[]);
            let work = [0, 1].map(|_| Child::spin(Some(&be), None));
            let comes = &threads[3];
            pass(100);
            let before = machine.scx().grant().decisions().preempted;
            let recording = Recording::begin();
            comes.signal(libc::SIGCONT);
            pass(1000);
            comes.signal(libc::SIGSTOP);
            await_stop(comes);
            let recorded = recording.end(&[comes.0, work[0].0, work[1].0]);
            let said = machine.scx().grant().decisions().preempted - before;
            let reported = recorded.takeovers.iter().filter(|taken| taken.to == comes.0 && taken.from != comes.0).count();
            println!("taken: said {said}, reported {reported}");
            // The system may have its turn on a CPU that best-effort work holds.
            let more = said.checked_sub(reported as u64);
            assert!(reported > 30 && more.is_some_and(|more| more * 10 < said), "CPUs taken: said {said}, reported {reported}");
            machine.scx().grant().check().unwrap();
        }
    }
}
