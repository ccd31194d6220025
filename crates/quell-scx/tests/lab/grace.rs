//! A thread that is notified before it loses its CPU.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU32};

use quell_guest::{Lockstep, lab_tests};
use quell_model::{Class, CpuCount, Grace, GraceSignal, Nanos, Selector, Workload};

use quell_scx::{ScxOptions, Slices};

use crate::support::*;

/// Much longer than a configuration allows, so that it can be notified from everything else that takes its time here.
const GRACE: Nanos = Nanos::from_millis(20);

/// What the children count, in memory that they share with the test.
struct Counts {
    notified: AtomicU32,
    woke: AtomicU32,
}

static COUNTS: AtomicPtr<Counts> = AtomicPtr::new(std::ptr::null_mut());

fn counts() -> &'static Counts {
    // SAFETY: a mapping that stays, which zeros fill.
    unsafe { &*COUNTS.load(Relaxed) }
}

fn share_counts() {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    COUNTS.store(at.cast(), Relaxed);
}

extern "C" fn count_it(_: i32) {
    counts().notified.fetch_add(1, Relaxed);
}

extern "C" fn yield_at_once(_: i32) {
    counts().notified.fetch_add(1, Relaxed);
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

fn spin_with(handler: extern "C" fn(i32)) {
    // SAFETY: the handler only counts and yields.
    unsafe { libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t) };
    loop {
        std::hint::spin_loop();
    }
}

/// Wakes up, counts it, and sleeps for 5 ms.
fn wake_often() {
    loop {
        pass(5);
        counts().woke.fetch_add(1, Relaxed);
    }
}

/// How often the spinning thread was notified, and how often the critical one woke up, in a second on CPU 1.
fn in_a_second(grace: Option<Grace>, work: fn()) -> (u32, u32) {
    let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
    // A grace ends with the slice, if that ends before.
    let slices = Slices { be: Nanos::from_millis(500), ..Slices::default() };
    let mut machine = Machine::with(ScxOptions { slices, ..ScxOptions::default() });
    let lc = machine.attach("lc", Class::LatencyCritical);
    let mut spec = Workload::new("be", Class::BestEffort, CpuCount::ZERO);
    spec.selectors = vec![Selector::Cgroup("be".into())];
    let be = machine.host.attach(spec.clone()).unwrap();
    spec.grace = grace;
    machine.scx().grant().describe(be, &spec).unwrap();
    machine.apply(&rights(lc, 1, 1, 0), &[]);
    machine.apply(&rights(be, 0, 2, 1), &[]);
    let _work = Child::run(Some(&be_group), Some(1), work);
    pass(300);
    let _critical = Child::run(Some(&lc_group), Some(1), wake_often);
    pass(300);
    let of = |count: &AtomicU32| count.load(Relaxed);
    let (notified, woke) = (of(&counts().notified), of(&counts().woke));
    pass(1000);
    let during = (of(&counts().notified) - notified, of(&counts().woke) - woke);
    machine.scx().grant().check().unwrap();
    println!("{grace:?}: {during:?}");
    during
}

lab_tests! {
    mod grace {
        machine: quell_guest::Machine {
            kernel: std::env::var("QUELL_TEST_KERNEL").ok(),
            ..quell_guest::Machine::measuring(2, Lockstep { serial: true, mips: 100, quantum_ns: 40_000 }, Vec::new())
        };

        #[ignore = "a minute in lock-step time: make soak"]
        fn who_asks_for_it_is_told_and_may_go_on_for_a_moment_unless_it_yields() {
            share_counts();
            let _first = RealTime::begin();
            let asked = Some(Grace { signal: GraceSignal::Usr1, time: GRACE });
            let (notified, woke) = in_a_second(None, || spin_with(count_it));
            assert_eq!(notified, 0, "no one asked");
            let at_once = woke;
            let (notified, woke) = in_a_second(asked, || spin_with(count_it));
            assert!(woke > 0 && notified.abs_diff(woke) <= woke / 4, "one signal a wake-up: {notified}, {woke}");
            assert!(woke <= 1000 / 20, "each waits until the grace is over: {woke}");
            assert!(at_once > 2 * woke, "the CPU was the critical thread's at once: {at_once}, then {woke}");
            let waited = woke;
            let (notified, woke) = in_a_second(asked, || spin_with(yield_at_once));
            assert!(notified.abs_diff(woke) <= woke / 4, "one signal a wake-up: {notified}, {woke}");
            assert!(woke > 2 * waited, "it yields, no one waits: {woke}, before {waited}");
        }
    }
}
