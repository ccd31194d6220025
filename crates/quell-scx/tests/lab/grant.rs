//! Who runs where: grants, rules, the system's turns.

use std::time::{Duration, Instant};

use crate::support::*;
use quell_guest::lab_tests;
use quell_model::{Class, CpuId, GrantCommand, Host, Nanos, Wake};
use quell_scx::ScxOptions;

/// Spins on 128 MiB, which take more than a slice to give back.
fn spin_with_much_memory() {
    const SIZE: usize = 128 << 20;
    // SAFETY: a mapping of this process's own, of this size.
    unsafe {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let memory = libc::mmap(std::ptr::null_mut(), SIZE, access, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        libc::memset(memory, 1, SIZE);
    }
    loop {
        std::hint::spin_loop();
    }
}

const PERIOD: Nanos = Nanos::from_millis(10);

/// Until this long after the next period begins.
fn sleep_until_next(offset: Nanos) {
    let next = Nanos((monotonic().0 / PERIOD.0 + 1) * PERIOD.0) + offset;
    std::thread::sleep((next - monotonic()).into());
}

fn serve_3_of_10_ms() {
    loop {
        sleep_until_next(Nanos::ZERO);
        let end = monotonic() + Nanos::from_millis(3);
        while monotonic() < end {
            std::hint::spin_loop();
        }
    }
}

lab_tests! {
    /// What holds whatever the timing.
    mod grant {
        machine: guest(2);

        fn it_loads_runs_everything_and_leaves() {
            Machine::unload();
            assert_eq!(state(), "disabled");
            let machine = Machine::load();
            assert_eq!(state(), "enabled");
            let _first = RealTime::begin();
            let (a, b) = (Child::spin(None, Some(0)), Child::spin(None, Some(1)));
            pass(100);
            let shares = shares(&[&a, &b], 400);
            assert!(shares.iter().all(|&share| share > 500), "{shares:?}");
            machine.scx().grant().check().unwrap();
            // The children inherited the scheduler's descriptors.
            drop((a, b));
            drop(machine);
            await_state("disabled");
        }

        fn a_granted_cpu_runs_its_workload_and_no_other() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = Machine::shared();
            let (lc, be) = machine.attach_pair(2);
            let hogs = [0, 1, 2].map(|_| Child::spin(Some(&be_group), None));
            let server = Child::spin(Some(&lc_group), None);
            pass(50);
            machine.grant(&[(0, be), (1, lc)]);
            pass(50);
            let shares = shares(&[&server, &hogs[0], &hogs[1], &hogs[2]], 400);
            assert!(shares[0] > 700, "{shares:?}");
            assert!(shares[1..].iter().all(|&share| share > 100), "{shares:?}");
            // Where a higher class takes CPU 1 for a moment, the two change places; this test's own wake-up on CPU 0 then
            // sends the server back.
            let strays = (0..20).map(|_| {
                pass(10);
                usize::from(server.cpu() != 1) + hogs.iter().filter(|hog| hog.cpu() != 0).count()
            });
            let strays: usize = strays.sum();
            assert!(strays < 20, "{strays} of 80 looks found a thread on a CPU of the other's");
        }

        fn a_loop_that_polls_keeps_its_cpu() {
            let _first = RealTime::begin();
            let be_group = Group::new("be");
            let pool = [1].map(CpuId).into_iter().collect();
            let mut machine = Machine::with(ScxOptions { pool: Some(pool), ..ScxOptions::default() });
            let be = machine.attach("be", Class::BestEffort);
            let _hog = Child::spin(Some(&be_group), None);
            machine.grant(&[(1, be)]);
            let (looping, daemon) = (Child::spin(None, Some(0)), Child::spin(None, None));
            machine.scx().grant().set_loop(looping.0);
            pass(200);
            let beside_a_daemon = shares(&[&looping, &daemon], 1000);
            println!("loop, daemon: {beside_a_daemon:?}");
            assert!(beside_a_daemon[0] > 900 && beside_a_daemon[1] > 200, "{beside_a_daemon:?}");
            // What may run nowhere else has its turns.
            let bound = Child::spin(None, Some(0));
            pass(200);
            let beside_both = shares(&[&looping, &daemon, &bound], 2000);
            println!("loop, daemon, one bound to its CPU: {beside_both:?}");
            assert!(beside_both[0] > 800 && beside_both[2] > 10, "{beside_both:?}");
            machine.scx().grant().check().unwrap();
        }

        fn a_loop_that_sleeps_goes_before_best_effort_work() {
            let _first = RealTime::begin();
            let be_group = Group::new("be");
            let mut machine = Machine::shared();
            let be = machine.attach("be", Class::BestEffort);
            let _hogs = [0, 1].map(|_| Child::spin(Some(&be_group), None));
            machine.apply(&rights(be, 0, 2, 0), &[]);
            machine.grant(&[(0, be), (1, be)]);
            let sleeper = Child::run(None, None, || {
                loop {
                    pass(1);
                }
            });
            let waits_within_a_second = || {
                let before = sleeper.waited();
                pass(1000);
                sleeper.waited() - before
            };
            pass(100);
            let as_a_daemon = waits_within_a_second();
            machine.scx().grant().set_loop(sleeper.0);
            // The host may be busy for a second or two; who goes behind best-effort work waits as long in each of them.
            let as_the_loop = [(); 8].map(|()| waits_within_a_second()).into_iter().min().unwrap();
            println!("waits as a daemon {as_a_daemon:?}, as the loop {as_the_loop:?}");
            assert!(as_the_loop * 2 < as_a_daemon, "{as_a_daemon:?}, {as_the_loop:?}");
        }

        /// It wakes up while latency-critical work runs on both CPUs, and before that goes back to best-effort work.
        fn a_loop_that_waited_for_latency_critical_work_goes_before_best_effort_work() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = Machine::shared();
            let lc = machine.attach("lc", Class::LatencyCritical);
            let be = machine.attach("be", Class::BestEffort);
            machine.apply(&[rights(lc, 2, 2, 0), rights(be, 0, 2, 1)].concat(), &[]);
            let _hogs = [0, 1].map(|cpu| Child::spin(Some(&be_group), Some(cpu)));
            let _servers = [0, 1].map(|cpu| Child::run(Some(&lc_group), Some(cpu), serve_3_of_10_ms));
            let looping = Child::run(None, None, || loop {
                sleep_until_next(Nanos::from_millis(1));
            });
            machine.scx().grant().set_loop(looping.0);
            pass(200);
            // As above: the best of a few windows.
            let window = || {
                let before = looping.waited();
                pass(1000);
                (looping.waited() - before) / 100
            };
            let wait = [(); 6].map(|()| window()).into_iter().min().unwrap();
            println!("the loop waits {wait:?} for servers that go on for 2 ms");
            assert!(wait.as_micros() < 2_800, "{wait:?}");
        }

        fn the_loop_hands_out_the_cpu_that_it_is_on() {
            let lc_group = Group::new("lc");
            let mut machine = Machine::shared();
            let lc = machine.attach("lc", Class::LatencyCritical);
            let server = Child::spin(Some(&lc_group), None);
            pin(0, 1..2);
            let away = machine.observe().cpus.away;
            assert!(!away.contains(CpuId(1)), "{away:?}");
            machine.grant(&[(1, lc)]);
            pass(50);
            let share = shares(&[&server], 400)[0];
            assert!(share > 500, "{share}");
            pin(0, 0..2);
            machine.scx().grant().check().unwrap();
        }

        fn a_queue_that_only_the_loop_serves_is_looked_at_again() {
            let _first = RealTime::begin();
            let lc_group = Group::new("lc");
            let mut machine = Machine::shared();
            let lc = machine.attach("lc", Class::LatencyCritical);
            let mut looks_within_300_ms = || {
                // Something was done: the loop's sleeps begin short again.
                machine.grant(&[(0, lc)]);
                machine.apply(&[], &[GrantCommand::Revoke(CpuId(0))]);
                let end = monotonic() + Nanos::from_millis(300);
                let mut looks = 0;
                while monotonic() < end {
                    machine.observe();
                    machine.host.wait(Wake::At(monotonic() + Nanos::from_micros(10))).unwrap();
                    looks += 1;
                }
                looks
            };
            let idle = looks_within_300_ms();
            let _waiting = Child::spin(Some(&lc_group), None);
            let beside_a_queue = looks_within_300_ms();
            println!("looks: {idle} at nothing, {beside_a_queue} at a queue");
            // From 10 µs instead of 1 ms, each sleep twice as long.
            assert!(beside_a_queue >= idle + 3, "{idle}, {beside_a_queue}");
        }

        fn a_revoked_cpu_is_given_up_at_once() {
            let _first = RealTime::begin();
            let be_group = Group::new("be");
            let mut machine = Machine::shared();
            let be = machine.attach("be", Class::BestEffort);
            let hog = Child::spin(Some(&be_group), None);
            pass(20);
            machine.grant(&[(1, be)]);
            pass(20);
            assert!(shares(&[&hog], 200)[0] > 500);
            machine.apply(&[], &[GrantCommand::Revoke(CpuId(1))]);
            pass(10);
            let share = shares(&[&hog], 300)[0];
            assert!(share < 100, "it still runs: {share}");
            assert_eq!(machine.holder(1), None);
        }

        fn who_ends_without_a_cpu_of_its_own_comes_to_its_end() {
            let _first = RealTime::begin();
            let be_group = Group::new("be");
            let mut machine = Machine::shared();
            let be = machine.attach("be", Class::BestEffort);
            let big = Child::run(Some(&be_group), None, spin_with_much_memory);
            machine.grant(&[(0, be), (1, be)]);
            pass(3000);
            machine.apply(&[], &[GrantCommand::Revoke(CpuId(0)), GrantCommand::Revoke(CpuId(1))]);
            big.signal(libc::SIGKILL);
            let start = Instant::now();
            while !big.has_ended() {
                if start.elapsed().as_secs() > 60 {
                    drop(machine);
                    panic!("it stands still");
                }
                pass(100);
            }
            println!("ended after {:?}, a turn each half second", start.elapsed());
        }

        fn a_wake_up_takes_the_guaranteed_cpu_and_yields_it_back() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = Machine::shared();
            let (_, be) = machine.attach_pair(2);
            let hogs = [0, 1, 2].map(|_| Child::spin(Some(&be_group), None));
            pass(20);
            machine.grant(&[(0, be), (1, be)]);
            pass(20);
            let before = machine.scx().grant().decisions().preempted;
            // Sleeps and wakes up, again and again.
            let sleeper = Child::run(Some(&lc_group), Some(1), || {
                loop {
                    let end = std::time::Instant::now() + std::time::Duration::from_millis(2);
                    while std::time::Instant::now() < end {}
                    pass(10);
                }
            });
            pass(600);
            let (woken, hog) = (sleeper.ran(), hogs.each_ref().map(Child::ran).iter().sum::<std::time::Duration>());
            assert!(woken.as_millis() > 40, "{woken:?}");
            assert!(hog.as_millis() > 400, "{hog:?}");
            let decisions = machine.scx().grant().decisions();
            assert!(decisions.preempted > before + 10, "{before} before, {decisions:?}");
            drop(sleeper);
            pass(50);
            assert_eq!(machine.holder(1), Some(be), "what the LC yielded goes back to the BE");
        }

        fn who_is_displaced_by_a_real_time_thread_goes_on_elsewhere() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = Machine::shared();
            machine.attach_pair(1);
            let server = Child::spin(Some(&lc_group), None);
            let hog = Child::spin(Some(&be_group), None);
            for _ in 0..5 {
                pass(50);
                // This test runs before all others.
                let cpu = server.cpu();
                pin(0, cpu..cpu + 1);
                // Until they have had this much of the one CPU that is left: the emulated ones themselves may have to wait for the
                // host's.
                let (before, start) = ((server.ran(), hog.ran()), Instant::now());
                let (mut served, mut hogged) = (0, 0);
                while served + hogged < 100 && start.elapsed().as_secs() < 20 {
                    let end = Instant::now() + Duration::from_millis(20);
                    while Instant::now() < end {}
                    (served, hogged) = ((server.ran() - before.0).as_millis(), (hog.ran() - before.1).as_millis());
                }
                let both = served + hogged;
                assert!(both >= 100 && served * 10 > both * 7, "{served} ms, and the other's hog {hogged} ms");
            }
        }

        fn who_wakes_up_is_not_sent_behind_a_real_time_thread() {
            let _first = RealTime::begin();
            let lc_group = Group::new("lc");
            let mut machine = Machine::shared();
            let lc = machine.attach("lc", Class::LatencyCritical);
            machine.apply(&rights(lc, 1, 2, 0), &[]);
            // Takes CPU 0, which is idle and of all CPUs the first, half of the time.
            let _often = Child::run(None, Some(0), || {
                set_class(libc::SCHED_FIFO, 10);
                loop {
                    let end = Instant::now() + Duration::from_micros(500);
                    while Instant::now() < end {}
                    std::thread::sleep(Duration::from_micros(500));
                }
            });
            let sleeper = Child::run(Some(&lc_group), None, || {
                loop {
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
            pass(200);
            let before = (sleeper.turns(), machine.scx().grant().queues_formed(lc));
            pass(2000);
            let (turns, waited) = (sleeper.turns() - before.0, machine.scx().grant().queues_formed(lc) - before.1);
            println!("it waited in {waited} of {turns} times");
            assert!(turns > 500 && waited * 6 < turns, "it waited in {waited} of {turns} times");
        }

        fn affinity_is_honoured_on_cpus_of_others() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = Machine::shared();
            machine.attach_pair(1);
            let before = machine.scx().grant().decisions().starving;
            let server = Child::spin(Some(&lc_group), Some(1));
            let pinned = Child::spin(Some(&be_group), Some(1));
            pass(3000);
            assert_eq!((server.cpu(), pinned.cpu()), (1, 1));
            // The LC holds the only CPU that the other may use: it starves, and has its turns.
            let (ran, served) = (pinned.ran().as_millis(), server.ran().as_millis());
            assert!(ran > 3 && served > 3, "{ran} beside {served}");
            assert!(machine.scx().grant().decisions().starving > before);
            machine.scx().grant().check().unwrap();
        }

        fn a_thread_that_changes_its_cgroup_changes_its_workload() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = Machine::load();
            let lc = machine.attach("lc", Class::LatencyCritical);
            let be = machine.attach("be", Class::BestEffort);
            machine.apply(&rights(lc, 1, 1, 0), &[]);
            let child = Child::spin(Some(&be_group), None);
            // Its own beginning, before it joined the cgroup, counts for the system.
            let own = child.ran();
            pass(50);
            assert_eq!((child.ran() - own).as_millis() / 10, 0, "nothing was granted to its workload");
            let before = machine.observe().workloads.run_time[lc.index()].value;
            lc_group.add(child.0);
            pass(300);
            let view = machine.observe();
            let after = view.workloads.run_time[lc.index()].value;
            assert!((after - before).as_secs_f64() > 0.05 || child.ran().as_millis() > 50, "{before} to {after}");
            assert_eq!(view.workloads.run_time[be.index()].value.0 / 10_000_000, 0);
            machine.host.detach(lc).unwrap();
            pass(100);
            let still = shares(&[&child], 200);
            assert!(still[0] > 300, "a workload that is gone leaves its threads to the system: {still:?}");
        }
    }

    /// What happens when the loader is killed.
    mod killed {
        machine: guest(2);

        fn the_kernels_scheduler_takes_over() {
            Machine::unload();
            let _first = RealTime::begin();
            let be_group = Group::new("be");
            let hogs = [0, 1, 2].map(|_| Child::spin(Some(&be_group), None));
            for _ in 0..2 {
                let loader = Child::run(None, None, || {
                    let mut machine = Machine::load();
                    machine.attach("be", Class::BestEffort);
                    loop {
                        pass(1000);
                    }
                });
                await_state("enabled");
                pass(100);
                drop(loader);
                await_state("disabled");
                let shares = shares(&[&hogs[0], &hogs[1], &hogs[2]], 200);
                assert!(shares.iter().all(|&share| share > 50), "all threads run on: {shares:?}");
            }
        }
    }
}
