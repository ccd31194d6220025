//! What tracepoints report of threads that the tests start themselves. Where the kernel does not allow tracing, there is
//! nothing to test, and the tests say so.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

mod guests;
mod packets;

use guests::Guests;
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::view::ThreadColumns;
use quell_model::{
    Class, CpuCount, CpuSet, Host, Knob, KnobSetting, Nanos, Plan, Signal, SignalSet, Support, Target, View, Workload,
    WorkloadId,
};

const WANTED: SignalSet = SignalSet::of(&[Signal::Threads, Signal::Preemptions, Signal::LateStarts, Signal::WakeUps]);

/// One at a time: while one collector comes or goes, a kernel may not report every switch to another.
static ONE: Mutex<()> = Mutex::new(());

/// A host with the guests as its only workload, and the right to trace; None where that is not possible.
fn host(guests: &Guests) -> Option<(LinuxHost, MutexGuard<'static, ()>)> {
    let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let options = HostOptions { threads_only: true, scan_interval: Nanos::from_millis(1), ..HostOptions::default() };
    let mut host = LinuxHost::new(Roots::default(), options).unwrap();
    if let Support::No { why, .. } = &host.capabilities().signals[&Signal::WakeUps] {
        eprintln!("not tested here: {why}");
        return None;
    }
    let mut workload = Workload::new("guests", Class::BestEffort, CpuCount::ZERO);
    workload.selectors.push(guests.selector());
    host.attach(workload).unwrap();
    Some((host, alone))
}

#[test]
fn packets_are_soft_interrupts_of_who_they_wake() {
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    packets::packets_count_and_pipes_do_not();
}

#[test]
fn who_waits_for_a_cpu_is_seen_waiting_and_who_sleeps_is_not() {
    let guests = Guests::start("(while :; do :; done) & while :; do :; done");
    let Some((mut host, _alone)) = host(&guests) else { return };
    let knob = Knob::Cpus(CpuSet::first(1));
    let knobs = vec![KnobSetting { target: Target::Workload(WorkloadId(0)), knob }];
    host.observe(SignalSet::default(), &mut View::new(host.topology()), &mut Vec::new()).unwrap();
    host.apply(&Plan { number: 1, knobs, ..Plan::default() }, &mut Vec::new()).unwrap();
    let mut view = View::new(host.topology());
    let mut waits = |host: &mut LinuxHost| {
        host.observe(SignalSet::of(&[Signal::QueueingDelay]), &mut view, &mut Vec::new()).unwrap();
        view.workloads.queueing_delay[0].usable().unwrap() > Nanos::ZERO
    };
    let mut until = |host: &mut LinuxHost, wanted: bool| {
        let begun = Instant::now();
        while waits(host) != wanted {
            assert!(begun.elapsed() < Duration::from_secs(10), "still not {wanted}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until(&mut host, true);
    let group = rustix::process::Pid::from_child(&guests.0);
    rustix::process::kill_process_group(group, rustix::process::Signal::STOP).unwrap();
    until(&mut host, false);
    host.restore();
}

/// Looks until it is seen, for ten seconds at most.
fn look_until(host: &mut LinuxHost, seen: impl Fn(&ThreadColumns) -> bool) -> ThreadColumns {
    let mut view = View::new(host.topology());
    let begun = Instant::now();
    loop {
        host.observe(WANTED, &mut view, &mut Vec::new()).unwrap();
        if seen(&view.threads) || begun.elapsed() > Duration::from_secs(10) {
            return view.threads;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn who_wakes_whom_is_counted_with_the_waker() {
    let guests = Guests::start("while :; do echo x; done | while read x; do :; done");
    let Some((mut host, _alone)) = host(&guests) else { return };
    let often = |threads: &ThreadColumns| {
        let edges = threads.wake_ups.waker.iter().zip(&threads.wake_ups.count);
        edges.filter(|(waker, count)| waker.is_some() && **count > 20).count() > 0
    };
    let threads = look_until(&mut host, often);
    assert!(often(&threads), "{:?}", threads.wake_ups);
    let (edges, ids) = (&threads.wake_ups, &threads.id);
    assert!(edges.woken.iter().chain(edges.waker.iter().flatten()).all(|thread| ids.contains(thread)));
    assert!(edges.waker.iter().zip(&edges.woken).all(|(waker, woken)| *waker != Some(*woken)));
}

/// A thread that wakes up while six others want its only CPU waits for more than 4 ms now and then.
#[test]
fn a_wake_up_that_waits_too_long_is_a_late_start() {
    let spins = "(while :; do :; done) & ".repeat(6);
    let guests = Guests::start(&format!("{spins} while :; do sleep 0.01; done"));
    let Some((mut host, _alone)) = host(&guests) else { return };
    look_until(&mut host, |threads| threads.len() >= 2);
    let first = KnobSetting { target: Target::Workload(WorkloadId(0)), knob: Knob::Cpus(CpuSet::first(1)) };
    host.apply(&Plan { number: 1, knobs: vec![first], ..Plan::default() }, &mut Vec::new()).unwrap();
    let late = |threads: &ThreadColumns| threads.late_starts.iter().flatten().any(|count| *count > 0);
    let threads = look_until(&mut host, late);
    assert!(late(&threads), "{:?}", threads.late_starts);
    host.restore();
}

#[test]
fn threads_that_share_a_cpu_preempt_each_other() {
    let guests = Guests::start("(while :; do :; done) & while :; do :; done");
    let Some((mut host, _alone)) = host(&guests) else { return };
    let knob = Knob::Cpus(CpuSet::first(1));
    let plan = Plan {
        number: 1,
        knobs: vec![KnobSetting { target: Target::Workload(WorkloadId(0)), knob }],
        ..Plan::default()
    };
    look_until(&mut host, |threads| threads.len() == 2);
    host.apply(&plan, &mut Vec::new()).unwrap();
    let both = |threads: &ThreadColumns| {
        let preempted = |count: &Option<u64>| count.is_some_and(|count| count > 10);
        threads.len() == 2 && threads.preemptions.iter().all(preempted)
    };
    let threads = look_until(&mut host, both);
    assert!(both(&threads), "{:?}", threads.preemptions);
    host.restore();
}
