//! Deferrable servers: what a service has on its CPU with a budget, beside work that never sleeps.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

use quell_guest::{Lockstep, lab_tests};
use quell_model::demand::Task;
use quell_model::{Class, CpuId, Event, Nanos, Rule, WorkloadId};
use quell_policy::vas::{Analysis, Busy, Margin, Releases, TaskSet};
use quell_scx::{Parts, ScxOptions};

use crate::support::*;

/// A thread that has a job every period, and what became of them.
struct Periodic {
    loops: AtomicU64,
    period: AtomicU64,
    /// When the next job begins, ns.
    release: AtomicU64,
    jobs: AtomicU64,
    /// Latencies, ns.
    total: AtomicU64,
    longest: AtomicU64,
}

const MOST: usize = 8;
static THREADS: AtomicPtr<[Periodic; MOST]> = AtomicPtr::new(std::ptr::null_mut());
/// The next child's place.
static NEXT: AtomicUsize = AtomicUsize::new(0);

fn threads() -> &'static [Periodic; MOST] {
    if THREADS.load(Acquire).is_null() {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping of zeros, which are values of atomics; it stays, and children inherit it.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        THREADS.store(at.cast(), Release);
    }
    // SAFETY: see above.
    unsafe { &*THREADS.load(Acquire) }
}

fn work(loops: u64) {
    for turn in 0..loops {
        std::hint::black_box(turn);
    }
}

fn sleep_until(at: u64) {
    let at = libc::timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
    // SAFETY: a time on the stack; what is left is not asked for.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut()) };
}

fn periodic() {
    let own = &threads()[NEXT.load(Acquire)];
    loop {
        let release = own.release.load(Acquire);
        sleep_until(release);
        work(own.loops.load(Relaxed));
        let latency = monotonic().0 - release;
        own.release.store(release + own.period.load(Relaxed), Release);
        // The first one is the program's start.
        if own.jobs.fetch_add(1, Relaxed) > 0 {
            own.total.fetch_add(latency, Relaxed);
            own.longest.fetch_max(latency, Relaxed);
        }
    }
}

/// Loops a microsecond.
fn speed() -> u64 {
    const LOOPS: u64 = 100_000;
    work(LOOPS);
    let begin = monotonic().0;
    work(LOOPS);
    LOOPS * 1000 / (monotonic().0 - begin)
}

/// One child for each task, in this cgroup and on CPU 1; their first jobs come soon.
fn begin(tasks: &[Task], speed: u64, group: &Group) -> Vec<Child> {
    let soon = monotonic().0 + 100_000_000;
    let child = |(at, task): (usize, &Task)| {
        let own = &threads()[at];
        own.loops.store(task.work.0 / 1000 * speed, Relaxed);
        own.period.store(task.period.0, Relaxed);
        own.release.store(soon + task.offset.0, Release);
        [&own.jobs, &own.total, &own.longest].iter().for_each(|number| number.store(0, Relaxed));
        NEXT.store(at, Release);
        Child::run(Some(group), Some(1), periodic)
    };
    tasks.iter().enumerate().map(child).collect()
}

/// Of each task's jobs but the first: how many, mean and longest latency, µs.
fn latencies(tasks: &[Task]) -> Vec<(u64, u64, u64)> {
    let of = |own: &Periodic| {
        let jobs = own.jobs.load(Acquire).saturating_sub(1);
        (jobs, own.total.load(Acquire) / jobs.max(1) / 1000, own.longest.load(Acquire) / 1000)
    };
    threads()[..tasks.len()].iter().map(of).collect()
}

fn server(workload: WorkloadId, budget: Nanos, period: Nanos) -> Rule {
    Rule::Server { workload, cpu: CpuId(1), budget, period, priority: 1 }
}

fn with_servers() -> Machine {
    Machine::shared_with(ScxOptions { parts: Parts { servers: true, ..Parts::default() }, ..ScxOptions::default() })
}

/// Looks at the clock again and again, and keeps how long it did not come to that, ns.
fn watch() {
    let own = &threads()[NEXT.load(Acquire)];
    let mut last = monotonic().0;
    loop {
        let now = monotonic().0;
        if now - last > 100_000 {
            own.jobs.fetch_add(1, Relaxed);
            own.total.fetch_add(now - last, Relaxed);
            own.longest.fetch_max(now - last, Relaxed);
        }
        last = now;
    }
}

fn watcher(at: usize, group: &Group) -> Child {
    let own = &threads()[at];
    [&own.jobs, &own.total, &own.longest].iter().for_each(|number| number.store(0, Relaxed));
    NEXT.store(at, Release);
    Child::run(Some(group), Some(1), watch)
}

/// How often budgets were used up according to the last look's events, and the longest overrun.
fn exhausted(machine: &Machine) -> (u64, Nanos) {
    let mut found = (0, Nanos::ZERO);
    for event in &machine.events {
        if let Event::BudgetExhausted(.., overrun) = event {
            found = (found.0 + 1, found.1.max(*overrun));
        }
    }
    found
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Tasks with harmonic periods that keep a CPU busy for some 60 %.
fn random_tasks(state: &mut u64) -> Vec<Task> {
    [8, 16, 32]
        .map(|period| period * 1000)
        .map(|period| Task {
            offset: Nanos::from_micros(random(state) % period),
            work: Nanos::from_micros(period * (15 + random(state) % 10) / 100),
            period: Nanos::from_micros(period),
        })
        .into()
}

/// Two threads on CPU 1 that wake each other up by turns, by these pipes; one counts.
static PIPES: AtomicPtr<[[i32; 2]; 2]> = AtomicPtr::new(std::ptr::null_mut());

fn passes_on(from: usize, to: usize, counts: bool) {
    // SAFETY: set before the thread began, and never freed.
    let pipes = unsafe { &*PIPES.load(Acquire) };
    let mut byte = 0u8;
    loop {
        // SAFETY: a byte of this stack; both ends of both pipes stay open.
        unsafe {
            libc::read(pipes[from][0], (&raw mut byte).cast(), 1);
            libc::write(pipes[to][1], (&raw const byte).cast(), 1);
        }
        if counts {
            threads()[0].jobs.fetch_add(1, Relaxed);
        }
    }
}

/// Two wake-ups and two switches: ns.
fn round_trip(group: &Group) -> u64 {
    let mut pipes = [[0; 2]; 2];
    // SAFETY: room for two numbers each.
    pipes.iter_mut().for_each(|pipe| assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0));
    PIPES.store(Box::leak(Box::new(pipes)), Release);
    let _pair = [
        Child::run(Some(group), Some(1), || passes_on(0, 1, true)),
        Child::run(Some(group), Some(1), || passes_on(1, 0, false)),
    ];
    // SAFETY: a byte that is there.
    unsafe { libc::write(pipes[0][1], [1u8].as_ptr().cast(), 1) };
    per_turn()
}

/// Nanoseconds for each of what the first of `threads` counts.
fn per_turn() -> u64 {
    pass(100);
    let (begin, before) = (monotonic().0, threads()[0].jobs.load(Acquire));
    pass(200);
    (monotonic().0 - begin) / (threads()[0].jobs.load(Acquire) - before).max(1)
}

fn counts_loops() {
    loop {
        work(100);
        threads()[0].jobs.fetch_add(1, Relaxed);
    }
}

/// Two threads that spin on CPU 1, one in the group: ns for each hundred loops of both together.
fn loops(group: &Group) -> u64 {
    let _both = [Some(group), None].map(|group| Child::run(group, Some(1), counts_loops));
    per_turn()
}

lab_tests! {
    mod servers {
        machine: quell_guest::Machine {
            kernel: std::env::var("QUELL_TEST_KERNEL").ok(),
            ..quell_guest::Machine::measuring(2, Lockstep { serial: false, mips: 125, quantum_ns: 10_000 }, Vec::new())
        };

        fn a_runaway_is_held_to_its_budget_and_others_have_the_rest() {
            let _first = RealTime::begin();
            let group = Group::new("service");
            let mut machine = with_servers();
            let id = machine.attach("service", Class::LatencyCritical);
            let rule = server(id, Nanos::from_millis(3), Nanos::from_millis(10));
            machine.apply(&[rule], &[]);
            let runaway = [0, 1].map(|_| Child::spin(Some(&group), Some(1)));
            let others = [0, 1].map(|_| Child::spin(None, Some(1)));
            pass(200);
            machine.observe();
            let all = [&runaway[0], &runaway[1], &others[0], &others[1]];
            let before: Vec<_> = all.iter().map(|child| child.ran()).collect();
            let begin = monotonic();
            let (mut times, mut overrun) = (0, Nanos::ZERO);
            // The same rule again and again neither fills the budget nor moves the periods.
            for _ in 0..60 {
                pass(17);
                machine.observe();
                let (more, longest) = exhausted(&machine);
                (times, overrun) = (times + more, overrun.max(longest));
                // Looks, too, and learns of what happened meanwhile.
                machine.apply(&[rule], &[]);
                let (more, longest) = exhausted(&machine);
                (times, overrun) = (times + more, overrun.max(longest));
            }
            let span = (monotonic() - begin).0;
            let ran: Vec<u64> =
                all.iter().zip(before).map(|(child, before)| (child.ran() - before).as_nanos() as u64 * 1000 / span).collect();
            let (served, rest) = (ran[0] + ran[1], ran[2] + ran[3]);
            println!("{ran:?} thousandths, {times} periods in {} ms, overrun {overrun}", span / 1_000_000);
            assert!((294..=306).contains(&served), "{served} is not within 2 % of 300");
            assert!(rest > 660, "{rest}");
            assert!(times >= span / 10_000_000 - 2, "{times}: each period is reported");
            assert!(overrun > Nanos::ZERO && overrun <= Nanos::from_micros(50), "{overrun}");
            assert!(ran[2..].iter().all(|one| *one > 200), "{ran:?}");
            machine.scx().grant().check().unwrap();
        }

        /// A server of a whole CPU loses it for half a millisecond at a time: to the system each 100 ms, and to starving
        /// workloads no sooner than after the declared blackout.
        fn turns_beside_a_server_end_soon_and_nobody_starves() {
            let _first = RealTime::begin();
            let (group, be_group, whole_group) = (Group::new("service"), Group::new("be"), Group::new("whole"));
            let mut machine = with_servers();
            let whole = machine.attach("whole", Class::LatencyCritical);
            let id = machine.attach("service", Class::LatencyCritical);
            let be = machine.attach("be", Class::BestEffort);
            machine.apply(&rights(be, 0, 2, 1), &[]);
            // 900 ms of a second: two budgets in a row are 1.8 s, and a busy interval is longer than the system waits.
            machine.apply(&[server(id, Nanos::from_millis(900), Nanos::from_millis(1000))], &[]);
            let had = machine.scx().grant().turns_beside_servers(CpuId(1));
            let _watch = watcher(0, &group);
            let starves = Child::spin(Some(&be_group), Some(1));
            let system = Child::spin(None, Some(1));
            pass(2200);
            let own = &threads()[0];
            let (holes, longest) = (own.jobs.load(Acquire), own.longest.load(Acquire) / 1000);
            let turns = machine.scx().grant().turns_beside_servers(CpuId(1)) - had;
            println!("{holes} holes, the longest {longest} us; {turns} turns; system {:?}, BE {:?}", system.ran(), starves.ran());
            assert!(turns > 10, "the system has a turn each 100 ms: {turns}");
            assert!(starves.ran().as_millis() > 20, "{:?}", starves.ran());
            machine.scx().grant().check().unwrap();
            // Exhausted it waits for 100 ms; all else is turns.
            assert!(longest < 110_000, "{longest}");
            drop((_watch, starves, system));

            // A whole CPU: nothing but turns.
            machine.apply(&[server(id, Nanos::ZERO, Nanos::from_millis(1000))], &[]);
            machine.apply(&[server(whole, Nanos::from_millis(1000), Nanos::from_millis(1000))], &[]);
            let _watch = watcher(1, &whole_group);
            pass(200);
            let before = threads()[1].jobs.load(Acquire);
            let system = Child::spin(None, Some(1));
            threads()[1].longest.store(0, Release);
            pass(1000);
            let own = &threads()[1];
            let (holes, longest) = (own.jobs.load(Acquire) - before, own.longest.load(Acquire) / 1000);
            println!("{holes} holes, the longest {longest} us; system {:?}", system.ran());
            assert!((2..30).contains(&holes), "{holes}");
            assert!(longest < 700, "half a millisecond and the switches: {longest} us");
            assert!(system.ran().as_micros() > 2000, "{:?}", system.ran());
        }

        /// Of two servers on a CPU the higher one comes first, and the other one has what it leaves, before all others.
        fn the_higher_server_comes_first() {
            let _first = RealTime::begin();
            let groups = ["high", "low"].map(Group::new);
            let mut machine = with_servers();
            let ids = ["high", "low"].map(|name| machine.attach(name, Class::LatencyCritical));
            let rule = |workload, budget, priority| Rule::Server {
                workload,
                cpu: CpuId(1),
                budget: Nanos::from_millis(budget),
                period: Nanos::from_millis(20),
                priority,
            };
            // Two jobs of 3 ms come in a period: with switches they need a little more than 6 ms.
            machine.apply(&[rule(ids[1], 10, 1), rule(ids[0], 8, 2)], &[]);
            let low = Child::spin(Some(&groups[1]), Some(1));
            let tasks = [Task { offset: Nanos::ZERO, work: Nanos::from_millis(3), period: Nanos::from_millis(10) }];
            let _high = begin(&tasks, speed(), &groups[0]);
            let other = Child::spin(None, Some(1));
            pass(200);
            let shares = shares(&[&low, &other], 800);
            let latencies = latencies(&tasks);
            println!("high {latencies:?}, low and other {shares:?}");
            assert!(latencies[0].0 > 50 && latencies[0].2 < 4000, "{latencies:?}");
            assert!((470..=520).contains(&shares[0]), "its half: {shares:?}");
            assert!(shares[1] > 120, "what is left: {shares:?}");
        }

        /// In lock-step, where time is instructions: 125 a microsecond.
        #[ignore = "a minute in lock-step time: make soak"]
        fn servers_make_wake_ups_and_ends_of_budgets_little_dearer() {
            let _first = RealTime::begin();
            let names: Vec<String> = (0..4).map(|at| format!("service-{at}")).collect();
            let groups: Vec<Group> = names.iter().map(|name| Group::new(name)).collect();
            let costs = [0, 1, 4].map(|servers| {
                let mut machine = if servers == 0 { Machine::load() } else { with_servers() };
                let ids: Vec<_> =
                    names.iter().map(|name| machine.attach(name, Class::LatencyCritical)).collect();
                let give = |machine: &mut Machine, budget: u64, period: u64| {
                    let rules: Vec<Rule> = ids
                        .iter()
                        .take(servers)
                        .map(|id| server(*id, Nanos::from_micros(budget), Nanos::from_micros(period)))
                        .collect();
                    machine.apply(&rules, &[]);
                };
                if servers == 0 {
                    machine.apply(&rights(ids[0], 1, 1, 0), &[]);
                }
                give(&mut machine, 20_000, 20_000);
                let round_trip = round_trip(&groups[0]);
                // A period of 1 ms has one end of a budget and one beginning.
                give(&mut machine, 500, 1000);
                pass(50);
                let loops = loops(&groups[0]);
                println!("{servers} servers: {round_trip} ns for two wake-ups and switches, {loops} ns for a hundred loops");
                (round_trip, loops)
            });
            let [none, one, four] = costs;
            let (lost, lost_of_four) = (one.1.saturating_sub(none.1) * 1000, four.1.saturating_sub(none.1) * 1000);
            println!(
                "a wake-up: {} instructions more with one server, {} with four; a period: {} and {} us",
                (one.0 as i64 - none.0 as i64) / 16,
                (four.0 as i64 - none.0 as i64) / 16,
                lost / one.1.max(1),
                lost_of_four / four.1.max(1),
            );
            assert!(one.0 * 2 < none.0 * 3, "a server makes wake-ups half as dear again: {costs:?}");
            assert!(four.0 < none.0 * 2, "four servers make them twice as dear: {costs:?}");
            assert!(lost_of_four / four.1.max(1) < 200, "a fifth of the CPU goes to budgets: {costs:?}");
        }

        /// Random task sets: with the budget of the analysis, beside threads that never sleep, jobs take as long as alone.
        #[ignore = "a minute of CPU time: make soak"]
        fn periodic_jobs_have_the_latency_of_a_whole_cpu() {
            let _first = RealTime::begin();
            let group = Group::new("service");
            let speed = speed();
            let mut state = 7;
            for _ in 0..2 {
                let tasks = random_tasks(&mut state);
                let alone = {
                    let mut machine = Machine::load();
                    let id = machine.attach("service", Class::LatencyCritical);
                    machine.apply(&rights(id, 1, 1, 0), &[]);
                    let _children = begin(&tasks, speed, &group);
                    pass(900);
                    latencies(&tasks)
                };
                let set = TaskSet::new(tasks.clone(), Releases::Periodic).unwrap();
                let interface = Analysis::least(&Busy::of(&set), Margin::USUAL).recommended;
                let (beside, others, times) = {
                    let mut machine = with_servers();
                    let id = machine.attach("service", Class::LatencyCritical);
                    machine.apply(&[server(id, interface.budget, interface.period)], &[]);
                    let others = [0, 1].map(|_| Child::spin(None, Some(1)));
                    let _children = begin(&tasks, speed, &group);
                    pass(100);
                    let others = shares(&[&others[0], &others[1]], 800);
                    machine.observe();
                    let times = exhausted(&machine).0;
                    (latencies(&tasks), others, times)
                };
                println!("{interface:?}: alone {alone:?}, beside {beside:?} (jobs, mean and longest, us), {others:?}, {times}");
                assert_eq!(times, 0);
                for (alone, beside) in alone.iter().zip(&beside) {
                    assert!(alone.0 > 15 && beside.0 > 15);
                    assert!(beside.1 * 100 <= alone.1 * 105, "mean of {alone:?} alone, {beside:?}");
                    assert!(beside.2 * 100 <= alone.2 * 110, "longest of {alone:?} alone, {beside:?}");
                }
                assert!(others.iter().sum::<u128>() > 200, "{others:?}");
            }
        }
    }
}
