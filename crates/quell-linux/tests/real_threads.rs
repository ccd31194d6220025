//! The running kernel, only on threads and processes that the tests start themselves.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quell_linux::sched::{Kernel, ThreadCalls, ThreadClass};
use quell_linux::{HostOptions, LinuxError, LinuxHost, Roots};
use quell_model::{
    Class, CpuCount, CpuSet, Event, Host, Knob, KnobSetting, Nanos, Plan, SchedClass, Selector, Signal, SignalSet,
    Target, ThreadState, Verdict, View, Wake, Workload, WorkloadId,
};

/// A process that is ended with the test.
struct Guest(Child);

impl Guest {
    fn start(script: &str) -> Guest {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Guest(command.spawn().expect("a shell"))
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Threads of this process that sleep until the test ends.
struct Sleepers {
    stop: Arc<AtomicBool>,
    threads: Vec<(i32, JoinHandle<()>)>,
}

impl Sleepers {
    fn start(count: usize) -> Sleepers {
        let stop = Arc::new(AtomicBool::new(false));
        let mut sleepers = Sleepers { stop, threads: Vec::new() };
        (0..count).for_each(|_| sleepers.one_more());
        sleepers
    }

    fn one_more(&mut self) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let stop = Arc::clone(&self.stop);
        let thread = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(5));
            }
        });
        self.threads.push((receiver.recv().unwrap(), thread));
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for (_, thread) in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

fn host() -> LinuxHost {
    LinuxHost::new(Roots::default(), HostOptions { threads_only: true, ..HostOptions::default() }).unwrap()
}

fn workload(name: &str, pid: i32) -> Workload {
    let mut workload = Workload::new(name, Class::BestEffort, CpuCount::ZERO);
    workload.selectors.push(Selector::Pid(pid));
    workload
}

fn set(host: &mut LinuxHost, target: Target, knobs: &[Knob]) -> Verdict {
    let knobs = knobs.iter().map(|&knob| KnobSetting { target, knob }).collect();
    let mut events = Vec::new();
    host.apply(&Plan { number: 1, knobs, ..Plan::default() }, &mut events).unwrap();
    let outcome = events.into_iter().find_map(|event| match event {
        Event::Outcome(outcome) => Some(outcome.verdict),
        _ => None,
    });
    outcome.expect("an outcome")
}

fn applied(host: &mut LinuxHost, id: WorkloadId, knob: Knob) {
    let verdict = set(host, Target::Workload(id), &[knob]);
    assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
}

fn observe(host: &mut LinuxHost, view: &mut View) -> Vec<Event> {
    let mut events = Vec::new();
    let wanted = SignalSet::of(&[Signal::Threads, Signal::RunTime, Signal::RunDelay, Signal::ThreadCount]);
    host.observe(wanted, view, &mut events).unwrap();
    events
}

/// Observes until it holds, for at most five seconds.
fn eventually(host: &mut LinuxHost, what: &str, mut holds: impl FnMut(&View) -> bool) -> View {
    let mut view = View::new(host.topology());
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(5) {
        observe(host, &mut view);
        if holds(&view) {
            return view;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what} did not come true: {:?}", view.threads);
}

fn nice_of(tid: i32) -> SchedClass {
    Kernel::new().unwrap().class(tid).unwrap().class
}

fn one_cpu() -> CpuSet {
    let own = Kernel::new().unwrap().affinity(0).unwrap();
    CpuSet::one(own.lowest().unwrap())
}

/// Whether this test may use real-time classes here: without the right to, it can only check the refusal.
fn may_be_real_time() -> bool {
    std::thread::spawn(|| {
        Kernel::new().unwrap().set_class(0, &ThreadClass::of(SchedClass::Fifo { priority: 1 })).is_ok()
    })
    .join()
    .unwrap()
}

/// The first such event, within five seconds: how soon the host looks again depends on what a look costs it.
fn eventually_told(host: &mut LinuxHost, what: &str, is_it: impl Fn(&Event) -> bool) -> Event {
    let mut view = View::new(host.topology());
    let start = Instant::now();
    loop {
        if let Some(event) = observe(host, &mut view).into_iter().find(&is_it) {
            return event;
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn forks_get_the_standing_values_and_everything_is_put_back() {
    let guest = Guest::start("sleep 30 & sleep 30 & wait");
    let mut host = host();
    let id = host.attach(workload("guest", guest.pid())).unwrap();
    applied(&mut host, id, Knob::Weight(10));
    applied(&mut host, id, Knob::Cpus(one_cpu()));
    let low = SchedClass::Fair { nice: 10, slice: None };
    let view = eventually(&mut host, "two forks at nice 10", |view| {
        view.threads.len() == 3 && view.threads.class.iter().all(|class| *class == low)
    });
    let kernel = Kernel::new().unwrap();
    for thread in &view.threads.id {
        assert_eq!(kernel.affinity(thread.tid).unwrap(), one_cpu());
    }
    let report = host.restore();
    assert!(report.left.is_empty(), "{report:?}");
    let all = kernel.affinity(0).unwrap();
    for thread in &view.threads.id {
        assert_eq!(nice_of(thread.tid), SchedClass::NORMAL);
        assert_eq!(kernel.affinity(thread.tid).unwrap(), all);
    }
    assert!(host.touched().is_empty());
}

#[test]
fn a_thread_that_inherited_a_value_gets_what_its_workload_had() {
    let mut guest = Guest::start("while sleep 0.05; do :; done");
    let mut host = host();
    let id = host.attach(workload("guest", guest.pid())).unwrap();
    applied(&mut host, id, Knob::IdleOnly(true));
    applied(&mut host, id, Knob::Cpus(one_cpu()));
    let first = guest.pid();
    // The forks come and go, and each is born as SCHED_IDLE on one CPU.
    let view = eventually(&mut host, "an idle-only fork", |view| {
        view.threads.id.iter().zip(&view.threads.class).any(|(id, class)| id.tid != first && *class == SchedClass::Idle)
    });
    assert!(view.threads.class.iter().all(|class| *class == SchedClass::Idle));
    // Taking the value back is no restore of the fork's inherited one.
    applied(&mut host, id, Knob::IdleOnly(false));
    eventually(&mut host, "all forks at nice 0 again", |view| {
        view.threads.len() == 2 && view.threads.class.iter().all(|class| *class == SchedClass::NORMAL)
    });
    host.detach(id).unwrap();
    assert!(guest.0.try_wait().unwrap().is_none());
}

#[test]
fn new_threads_of_this_process_get_values_and_others_are_left_alone() {
    let mut sleepers = Sleepers::start(2);
    let mut bystander = Guest::start("exec sleep 30");
    let options = HostOptions { threads_only: true, include_self: true, ..HostOptions::default() };
    let mut host = LinuxHost::new(Roots::default(), options).unwrap();
    // The tests run as threads of one process: only single threads are set here, never the whole process.
    let id = host.attach(workload("self", std::process::id() as i32)).unwrap();
    let known = eventually(&mut host, "two sleepers", |view| {
        sleepers.threads.iter().all(|(tid, _)| view.threads.id.iter().any(|id| id.tid == *tid))
    });
    let thread = |view: &View, tid: i32| *view.threads.id.iter().find(|id| id.tid == tid).unwrap();
    let target = Target::Thread(thread(&known, sleepers.threads[0].0));
    assert!(matches!(set(&mut host, target, &[Knob::Weight(1)]), Verdict::Applied(_)));
    assert_eq!(nice_of(sleepers.threads[0].0), SchedClass::Fair { nice: 19, slice: None });
    assert_eq!(nice_of(sleepers.threads[1].0), SchedClass::NORMAL);
    assert_eq!(nice_of(bystander.pid()), SchedClass::NORMAL);

    sleepers.one_more();
    let newest = sleepers.threads[2].0;
    let born = eventually_told(&mut host, "the newest thread's birth", |event| match event {
        Event::ThreadBorn(owner, born) => *owner == id && born.tid == newest,
        _ => false,
    });
    let Event::ThreadBorn(_, gone) = born else { panic!("{born:?}") };
    drop(sleepers);
    assert_eq!(
        set(&mut host, Target::Thread(quell_model::ThreadId { start: 1, ..gone }), &[Knob::Weight(1)]),
        Verdict::Vanished
    );
    eventually_told(&mut host, "the newest thread's death", |event| *event == Event::ThreadDied(id, gone));
    assert_eq!(set(&mut host, Target::Thread(gone), &[Knob::Weight(1)]), Verdict::Vanished);
    assert!(bystander.0.try_wait().unwrap().is_none());
}

#[test]
fn real_time_ends_with_the_thread_and_with_quell() {
    let guest = Guest::start("while sleep 0.05; do :; done");
    let mut host = host();
    let id = host.attach(workload("guest", guest.pid())).unwrap();
    let fifo = SchedClass::Fifo { priority: 1 };
    let verdict = set(&mut host, Target::Workload(id), &[Knob::Class(fifo)]);
    if !may_be_real_time() {
        assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
        return;
    }
    assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
    let kernel = Kernel::new().unwrap();
    assert_eq!(kernel.class(guest.pid()).unwrap(), ThreadClass { class: fifo, reset_on_fork: true });
    eventually(&mut host, "a fork at real-time priority", |view| {
        view.threads.len() == 2 && view.threads.class.iter().all(|class| *class == fifo)
    });
    let report = host.restore();
    assert!(report.left.is_empty(), "{report:?}");
    assert_eq!(kernel.class(guest.pid()).unwrap(), ThreadClass { class: SchedClass::NORMAL, reset_on_fork: false });
}

#[test]
fn a_threads_weight_and_latency_are_its_nice_value_and_slice_and_end_with_quell() {
    let guest = Guest::start("exec sleep 30");
    let mut host = host();
    host.attach(workload("guest", guest.pid())).unwrap();
    let view = eventually(&mut host, "the thread", |view| view.threads.len() == 1);
    let target = Target::Thread(view.threads.id[0]);
    let latency = Nanos::from_millis(1);
    let both = |latency| [Knob::Weight(50), Knob::WakeUpLatency(Some(latency))];
    let kernel = Kernel::new().unwrap();
    assert!(matches!(set(&mut host, target, &both(Nanos::from_millis(101))), Verdict::Refused(_)));
    assert_eq!(kernel.class(guest.pid()).unwrap().class, SchedClass::NORMAL, "nothing is half set");
    let verdict = set(&mut host, target, &both(latency));
    if !kernel.has_slices() {
        let Verdict::Refused(why) = verdict else { panic!("{verdict:?}") };
        assert!(why.to_string().contains("slices"), "{why}");
        return;
    }
    assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
    assert_eq!(kernel.class(guest.pid()).unwrap().class, SchedClass::Fair { nice: 3, slice: Some(latency) });
    // The exact weight is the policy's: a nice value stands for a quarter more or less.
    assert!(matches!(set(&mut host, target, &[Knob::Weight(52)]), Verdict::Applied(_)));
    assert_eq!(kernel.class(guest.pid()).unwrap().class, SchedClass::Fair { nice: 3, slice: Some(latency) });
    let report = host.restore();
    assert!(report.left.is_empty(), "{report:?}");
    assert_eq!(kernel.class(guest.pid()).unwrap().class, SchedClass::NORMAL);
}

#[test]
fn a_refused_plan_changes_nothing() {
    let guest = Guest::start("exec sleep 30");
    let mut host = host();
    let id = host.attach(workload("guest", guest.pid())).unwrap();
    let verdict = set(&mut host, Target::Workload(id), &[Knob::Weight(10), Knob::Quota(Some(CpuCount::whole(1)))]);
    let Verdict::Refused(refusal) = verdict else { panic!("{verdict:?}") };
    assert!(refusal.to_string().contains("cgroup"), "{refusal}");
    assert_eq!(nice_of(guest.pid()), SchedClass::NORMAL);
    // Nothing of it stands either: a later plan does not bring the weight back.
    applied(&mut host, id, Knob::Cpus(one_cpu()));
    assert_eq!(nice_of(guest.pid()), SchedClass::NORMAL);
}

#[test]
fn what_somebody_else_changed_is_reported_and_left() {
    let guest = Guest::start("exec sleep 30");
    let mut host = host();
    let id = host.attach(workload("guest", guest.pid())).unwrap();
    applied(&mut host, id, Knob::Weight(10));
    let other = SchedClass::Fair { nice: 5, slice: None };
    if Kernel::new().unwrap().set_class(guest.pid(), &ThreadClass::of(other)).is_err() {
        return; // Without CAP_SYS_NICE nice values only grow.
    }
    let report = host.restore();
    assert_eq!(report.left.len(), 1);
    assert!(report.left[0].why.contains("another process"), "{report:?}");
    assert_eq!(nice_of(guest.pid()), other);
}

#[test]
fn a_paused_process_goes_on_when_that_is_taken_back() {
    let guest = Guest::start("exec sleep 30");
    let mut host = host();
    let id = host.attach(workload("guest", guest.pid())).unwrap();
    let first = guest.pid();
    let state = move |view: &View| {
        let at = view.threads.id.iter().position(|id| id.tid == first);
        at.map(|at| view.threads.state[at])
    };
    applied(&mut host, id, Knob::Pause(true));
    eventually(&mut host, "the stop", |view| state(view) == Some(ThreadState::Stopped));
    applied(&mut host, id, Knob::Pause(false));
    eventually(&mut host, "going on", |view| state(view) == Some(ThreadState::Sleeping));
}

#[test]
fn run_time_counts_from_the_attachment() {
    let guest = Guest::start("while :; do :; done");
    std::thread::sleep(Duration::from_millis(100));
    let mut host = host();
    let id = host.attach(workload("guest", guest.pid())).unwrap();
    let mut view = View::new(host.topology());
    observe(&mut host, &mut view);
    let first = view.workloads.run_time[id.index()].value;
    assert!(first < Nanos::from_millis(90), "{first}");
    let view = eventually(&mut host, "20 ms of CPU time", |view| {
        view.workloads.run_time[id.index()].value > Nanos::from_millis(20)
    });
    assert!(view.workloads.run_delay[id.index()].usable().is_some());
    assert_eq!(view.workloads.thread_count[id.index()].value, 1);
    assert!(view.workloads.latency.is_empty());
}

#[test]
fn a_selector_that_matches_nothing_is_named() {
    let mut host = host();
    let mut none = workload("db", i32::MAX);
    let error = host.attach(none.clone()).unwrap_err();
    assert!(matches!(error, LinuxError::NoMatch { .. }), "{error}");
    assert!(error.to_string().contains("process 2147483647") && error.to_string().contains("'db'"), "{error}");
    for selector in [
        Selector::Command("no program on earth has this command line".into()),
        Selector::Unit("no-such-unit-0815.service".into()),
        Selector::Cgroup("no/such/cgroup".into()),
        Selector::Cgroup("/".into()),
    ] {
        none.selectors = vec![selector.clone()];
        let text = host.attach(none.clone()).unwrap_err().to_string();
        assert!(text.contains(&selector.to_string()), "{text}");
    }
    assert_eq!(host.workloads().count(), 0);
}

#[test]
fn command_lines_select_processes() {
    let guest = Guest::start("exec sleep 31.0815");
    let mut host = host();
    let mut workload = workload("guest", 0);
    workload.selectors = vec![Selector::Command("sleep 31.0815".into())];
    let start = Instant::now();
    let id = loop {
        // The shell needs a moment to become the program.
        match host.attach(workload.clone()) {
            Ok(id) => break id,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(5), "{error}"),
        }
    };
    let view = eventually(&mut host, "one thread", |view| view.threads.len() == 1);
    assert_eq!((view.threads.id[0].tid, view.threads.workload[0]), (guest.pid(), id));
}

#[test]
fn who_is_enqueued_anew_is_as_before() {
    let sleepers = Sleepers::start(1);
    let tid = sleepers.threads[0].0;
    let mut kernel = Kernel::new().unwrap();
    let slices = if kernel.has_slices() { &[None, Some(Nanos::from_millis(5))][..] } else { &[None] };
    for slice in slices {
        let class = ThreadClass { class: SchedClass::Fair { nice: 7, slice: *slice }, reset_on_fork: true };
        kernel.set_class(tid, &class).unwrap();
        kernel.enqueue_anew(tid).unwrap();
        assert_eq!(kernel.class(tid).unwrap(), class);
    }
    let idle = ThreadClass::of(SchedClass::Idle);
    kernel.set_class(tid, &idle).unwrap();
    kernel.enqueue_anew(tid).unwrap();
    assert_eq!(kernel.class(tid).unwrap(), idle, "others are left alone");
    assert!(kernel.enqueue_anew(i32::MAX).is_err());
}

#[test]
fn the_waker_and_births_end_a_wait() {
    let guest = Guest::start("sleep 0.3; sleep 30");
    let mut host = host();
    host.attach(workload("guest", guest.pid())).unwrap();
    let mut view = View::new(host.topology());
    observe(&mut host, &mut view);
    let waker = host.waker();
    waker.wake();
    host.wait(Wake::OnEvent).unwrap();
    // The first sleep ends and the second is born.
    host.wait(Wake::OnEvent).unwrap();
    assert!(!observe(&mut host, &mut view).is_empty());
    let until = host.now() + Nanos::from_millis(30);
    host.wait(Wake::At(until)).unwrap();
    assert!(host.now() >= until || !observe(&mut host, &mut view).is_empty());
}
