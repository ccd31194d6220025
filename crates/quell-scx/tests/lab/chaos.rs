//! What must not break anything: no thread that has a CPU stands still, the kernel has no cause to end the scheduler.
//!
//! Five of the six are run with `--include-ignored` only (`make soak`). The long form (50 killed loaders, 1,000 cgroups) may take
//! more than the quarter of an hour that a suite has otherwise: `QUELL_SCX_CHAOS=long QUELL_LAB_SUITE_SECONDS=7200
//! cargo test -p quell-scx --test lab chaos -- --include-ignored`. With a spinning workload's server on every CPU:
//! `QUELL_SCX_CHAOS=servers`, or `long,servers`; with services that come to hold CPUs as one and part again:
//! `QUELL_SCX_CHAOS=together`, and with both of them.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use quell_guest::lab_tests;
use quell_model::{Class, CpuId, Nanos, QueueOrder, Rule, WorkloadId};
use quell_scx::{Parts, ScxOptions};

use crate::support::*;

/// No thread may stand still for longer than this, on an emulated machine that shares its CPUs. A starving one waits for 2 s where
/// all is well; the kernel ends a scheduler under which one waits for 30 s.
const STALL: Duration = Duration::from_secs(10);

/// Guests learn by their kernel's command line what is asked of them: words with this in front.
const FORM: &str = "quell.chaos=";

fn chaotic() -> quell_guest::Machine {
    let mut machine = guest(2);
    let forms = std::env::var("QUELL_SCX_CHAOS").unwrap_or_default();
    machine
        .kernel_arguments
        .extend(forms.split(',').filter(|form| !form.is_empty()).map(|form| format!("{FORM}{form}")));
    machine
}

fn is_asked(form: &str) -> bool {
    fs::read_to_string("/proc/cmdline").unwrap().split_whitespace().any(|word| word.strip_prefix(FORM) == Some(form))
}

fn rounds(short: usize, long: usize) -> usize {
    if is_asked("long") { long } else { short }
}

/// A server of a fifth of every CPU, for the cgroup "served".
fn serve(machine: &mut Machine) {
    let served = machine.attach("served", Class::LatencyCritical);
    let (budget, period) = (Nanos::from_millis(10), Nanos::from_millis(50));
    let server = |cpu| Rule::Server { workload: served, cpu: CpuId(cpu), budget, period, priority: 1 };
    machine.apply(&[0, 1].map(server), &[]);
}

/// A loaded scheduler, with threads that use a server on every CPU up where that is asked for.
struct Loaded {
    machine: Machine,
    _served: Option<([Child; 2], Group)>,
}

impl Deref for Loaded {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl DerefMut for Loaded {
    fn deref_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }
}

/// Loads the scheduler with the parts that are asked for, and a server on every CPU if those are.
fn loader() -> Machine {
    let parts = Parts { servers: is_asked("servers"), together: is_asked("together"), sets: is_asked("sets") };
    if parts == Parts::default() {
        return Machine::load();
    }
    let mut machine = Machine::with(ScxOptions { parts, ..ScxOptions::default() });
    if parts.servers {
        serve(&mut machine);
    }
    machine
}

/// These hold CPUs as one from now on, or each its own again.
fn hold(machine: &mut Machine, workloads: &[WorkloadId], leader: Option<WorkloadId>) {
    let rules: Vec<Rule> =
        workloads.iter().map(|&workload| Rule::Together { workload, leader, order: QueueOrder::Weight }).collect();
    machine.apply(&rules, &[]);
}

/// A latency-critical workload of one CPU, in a queue by weighted run time where that is asked for, and a best-effort one.
fn pair(machine: &mut Machine) -> (WorkloadId, WorkloadId) {
    let (lc, be) = machine.attach_pair(1);
    if is_asked("together") {
        hold(machine, &[lc], Some(lc));
    }
    (lc, be)
}

fn load() -> Loaded {
    if !is_asked("servers") {
        return Loaded { machine: loader(), _served: None };
    }
    let group = Group::new("served");
    let machine = loader();
    let spinning = [0, 1].map(|cpu| Child::spin(Some(&group), Some(cpu)));
    Loaded { machine, _served: Some((spinning, group)) }
}

/// Both classes at random, from a seed that is printed.
struct Classes(u64);

impl Classes {
    fn begin() -> Classes {
        let seed = monotonic().0 | 1;
        println!("classes from seed {seed}");
        Classes(seed)
    }

    fn next(&mut self) -> Class {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        if self.0 >> 40 & 1 == 0 { Class::BestEffort } else { Class::LatencyCritical }
    }
}

lab_tests! {
    mod chaos {
        machine: chaotic();

        fn loaders_are_killed_under_load() {
            let _first = RealTime::begin();
            let be_group = Group::new("be");
            let _served = is_asked("servers").then(|| Group::new("served"));
            let beats = Beats::begin();
            let beating = [beats.child(Some(&be_group), None), beats.child(None, None), beats.child(None, Some(1))];
            let hogs = [0, 1, 2].map(|_| Child::spin(Some(&be_group), None));
            let all = [&beating[0], &beating[1], &beating[2], &hogs[0], &hogs[1], &hogs[2]];
            for round in 0..rounds(3, 50) {
                let loader = Child::run(None, None, || {
                    let mut machine = loader();
                    let be = machine.attach("be", Class::BestEffort);
                    machine.apply(&rights(be, 0, 2, 0), &[]);
                    loop {
                        pass(1000);
                    }
                });
                await_state("enabled");
                pass(150);
                drop(loader);
                await_state("disabled");
                let before = all.map(Child::ran);
                pass(300);
                let stands = all.iter().zip(before).filter(|(child, before)| child.ran() == *before).count();
                assert_eq!(stands, 0, "of {} threads, after kill {round}", all.len());
            }
            let longest = beats.longest();
            assert!(longest.iter().all(|&gap| gap < STALL), "{longest:?}");
        }

        #[ignore = "CI has one of the six: make soak"]
        fn cgroups_and_workloads_come_and_go_with_threads_in_them() {
            let _first = RealTime::begin();
            let be_group = Group::with_controller("be");
            let mut machine = load();
            let be = machine.attach("be", Class::BestEffort);
            machine.apply(&rights(be, 0, 2, 0), &[]);
            let beats = Beats::begin();
            let _beating = [beats.child(None, None), beats.child(None, Some(1))];
            let mut living = std::collections::VecDeque::new();
            let (mut class, mut leader) = (Classes::begin(), None);
            for round in 0..rounds(40, 1000) {
                let inner = be_group.child(&format!("inner{round}"));
                inner.set("cpu.weight", &(round % 200 + 1).to_string());
                if round % 3 == 0 {
                    inner.set("cpu.max", "5000 50000");
                }
                if round % 7 == 0 {
                    inner.set("cpu.idle", "1");
                }
                let outer = Group::new(&format!("outer{round}"));
                let its = class.next();
                let workload = machine.attach(&format!("outer{round}"), its);
                if its == Class::LatencyCritical && is_asked("together") {
                    let leader = *leader.get_or_insert(workload);
                    hold(&mut machine, &[workload, leader], Some(leader));
                }
                machine.apply(&rights(workload, 0, 2, 1), &[]);
                machine.grant(&[(1, if round % 2 == 0 { workload } else { be })]);
                let child = Child::spin(Some(if round % 2 == 0 { &inner } else { &outer }), None);
                living.push_back((child, inner, outer, workload));
                if living.len() > 4 {
                    let (child, inner, outer, workload) = living.pop_front().unwrap();
                    outer.add(child.0);
                    if round % 5 == 0 {
                        inner.add(child.0);
                    }
                    machine.host.detach(workload).unwrap();
                    leader = leader.filter(|leader| *leader != workload);
                    drop((child, inner, outer));
                }
                if let Some(leader) = leader.take_if(|_| round % 5 == 3) {
                    hold(&mut machine, &[leader], None);
                }
                machine.scx().grant().check().unwrap();
            }
            for (child, inner, outer, workload) in living {
                machine.host.detach(workload).unwrap();
                drop((child, inner, outer));
            }
            let longest = beats.longest();
            assert!(longest.iter().all(|&gap| gap < STALL), "{longest:?}");
            // It still grants, and weights still hold.
            let last = be_group.child("last");
            let hog = Child::spin(Some(&last), None);
            machine.grant(&[(1, be)]);
            pass(100);
            let share = shares(&[&hog], 500)[0];

            assert!(share > 500, "{share}");
            machine.scx().grant().check().unwrap();
        }

        #[ignore = "CI has one of the six: make soak"]
        fn forks_in_storms_beside_a_server() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = load();
            let (lc, _) = pair(&mut machine);
            let beats = Beats::begin();
            let _beating = [beats.child(Some(&lc_group), None), beats.child(None, None), beats.child(Some(&be_group), None)];
            let storms = [Child::run(Some(&be_group), None, storm), Child::run(None, None, storm)];
            let server = Child::spin(Some(&lc_group), None);
            pass(rounds(5_000, 60_000) as u64);
            let served = shares(&[&server], 1000)[0];
            let longest = beats.longest();
            drop(storms);
            assert!(longest.iter().all(|&gap| gap < STALL), "{longest:?}");
            assert!(served > 400, "{served}");
            machine.scx().grant().check().unwrap();
            assert!(machine.comes_to_hold(lc), "a lost grant");
        }

        #[ignore = "CI has one of the six: make soak"]
        fn cpus_go_offline_and_come_back() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = load();
            let (_, be) = pair(&mut machine);
            let beats = Beats::begin();
            let _beating = [beats.child(Some(&lc_group), None), beats.child(None, None), beats.child(Some(&be_group), None)];
            let hogs = [0, 1, 2].map(|_| Child::spin(Some(&be_group), None));
            for round in 0..rounds(10, 100) {
                machine.grant(&[(1, be)]);
                pass(30);
                set_online(1, false);
                pass(100);
                machine.scx().grant().check().unwrap_or_else(|error| panic!("offline, round {round}: {error}"));
                assert_ne!(machine.holder(1), Some(be), "an offline CPU was kept");
                set_online(1, true);
                pass(100);
                machine.scx().grant().check().unwrap_or_else(|error| panic!("online, round {round}: {error}"));
            }
            machine.grant(&[(1, be)]);
            pass(100);
            let shares = shares(&[&hogs[0], &hogs[1], &hogs[2]], 1000);
            assert!(shares.iter().sum::<u128>() > 700, "{shares:?}");
            let longest = beats.longest();
            assert!(longest.iter().all(|&gap| gap < STALL), "{longest:?}");
            assert!(machine.comes_to_hold(be), "a lost grant");
            assert_eq!(state(), "enabled");
        }

        #[ignore = "CI has one of the six: make soak"]
        fn hogs_of_real_time_come_and_go_beside_grants() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = load();
            let (_, be) = pair(&mut machine);
            let beats = Beats::begin();
            let _beating = [beats.child(Some(&lc_group), None), beats.child(None, None), beats.child(Some(&be_group), None)];
            let hogs = [0, 1, 2].map(|_| Child::spin(Some(&be_group), None));
            for _ in 0..rounds(4, 40) {
                let greedy = Child::run(None, Some(1), || {
                    set_class(libc::SCHED_FIFO, 10);
                    loop {
                        std::hint::spin_loop();
                    }
                });
                machine.grant(&[(1, be)]);
                pass(1000);
                drop(greedy);
                machine.grant(&[(1, be)]);
                pass(300);
                machine.scx().grant().check().unwrap();
            }
            let longest = beats.longest();
            assert!(longest.iter().all(|&gap| gap < STALL), "{longest:?}");
            // Each runs on; the whole machine may stand still meanwhile.
            let (begin, before) = (Instant::now(), hogs.each_ref().map(Child::ran));
            let ran = || std::array::from_fn::<_, 3, _>(|at| hogs[at].ran() - before[at]);
            while ran().iter().any(|ran| *ran < Duration::from_millis(50)) {
                let holders = [0, 1].map(|cpu| machine.holder(cpu));
                assert!(begin.elapsed() < STALL, "{:?}, held by {holders:?}", ran());
                pass(100);
            }
            assert!(machine.comes_to_hold(be), "a lost grant");
        }

        #[ignore = "CI has one of the six: make soak"]
        fn quotas_so_tight_that_many_threads_wait_for_one_tick() {
            let _first = RealTime::begin();
            let be_group = Group::with_controller("be");
            be_group.set("cpu.max", "50000 100000");
            let tight = be_group.child("tight");
            tight.set("cpu.max", "1000 100000");
            let mut machine = load();
            let be = machine.attach("be", Class::BestEffort);
            machine.apply(&rights(be, 0, 2, 0), &[]);
            let beats = Beats::begin();
            let _beating = [beats.child(None, None), beats.child(None, Some(1))];
            let threads: Vec<_> = (0..12).map(|_| Child::spin(Some(&tight), None)).collect();
            // The kernel ends a scheduler under which a thread waits for 30 s.
            let span = Instant::now();
            pass(rounds(35_000, 90_000) as u64);
            machine.scx().grant().check().unwrap();
            let ran: Vec<Duration> = threads.iter().map(Child::ran).collect();
            let sum: Duration = ran.iter().sum();
            println!("{} of 10 in 1000: {ran:?}", sum.as_millis() * 1000 / span.elapsed().as_millis());
            assert!(ran.iter().all(|ran| ran.as_micros() > 500), "{ran:?}");
            assert!(sum < span.elapsed() / 20, "{sum:?}");
            let longest = beats.longest();
            assert!(longest.iter().all(|&gap| gap < STALL), "{longest:?}");
        }
    }
}
