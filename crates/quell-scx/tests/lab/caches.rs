//! Two last-level caches of two CPUs each: a thread stays where its data are, unless a CPU would idle or others be ahead of it.

use quell_guest::lab_tests;
use quell_model::Class;
use quell_scx::{Parts, ScxOptions};

use crate::programs::load_all;
use crate::support::*;

const CPUS: u32 = 4;

fn guest_with_two_caches() -> quell_guest::Machine {
    quell_guest::Machine { topology: "2,2,1".parse().ok(), ..guest(CPUS) }
}

/// A best-effort workload in the cgroup "be", which holds all CPUs.
fn on_all_cpus() -> (Group, Machine) {
    let be = Group::with_controller("be");
    let mut machine = Machine::load();
    assert_eq!(quell_linux::sysfs::topology("/sys".as_ref()).unwrap().llcs().len(), 2, "the caches of this test");
    let id = machine.attach("be", Class::BestEffort);
    machine.apply(&rights(id, 0, CPUS, 0), &[]);
    machine.grant(&[0, 1, 2, 3].map(|cpu| (cpu, id)));
    (be, machine)
}

/// How often they are seen on another CPU than a moment before, of the same cache and of the other one.
fn moves(children: &[Child], milliseconds: u64) -> [usize; 2] {
    let mut moves = [0; 2];
    let mut before: Vec<u32> = children.iter().map(Child::cpu).collect();
    for _ in 0..milliseconds / 2 {
        pass(2);
        for (child, before) in children.iter().zip(&mut before) {
            let cpu = child.cpu();
            if cpu != *before {
                moves[usize::from(cpu / 2 != *before / 2)] += 1;
            }
            *before = cpu;
        }
    }
    moves
}

/// Threads that spin on the first cache's CPUs, and then may use all.
fn four_of_one_cache_have_a_cpu_each(group: &Group) {
    let children: Vec<_> = (0..4).map(|number| Child::spin(Some(group), Some(number % 2))).collect();
    pass(300);
    for child in &children {
        pin(child.0, 0..CPUS);
    }
    pass(300);
    let shares = shares(&children.iter().collect::<Vec<_>>(), 2000);
    assert!(shares.iter().all(|&share| share > 900), "a CPU each: {shares:?}");
}

lab_tests! {
    mod caches {
        machine: guest_with_two_caches();

        fn the_kernel_takes_all_that_there_is_where_caches_are_several() {
            load_all(Parts { servers: true, together: true, sets: true });
        }

        fn threads_stay_in_their_cache_and_have_what_is_fair() {
            let _first = RealTime::begin();
            let (be, machine) = on_all_cpus();
            let group = be.child("all");
            let children: Vec<_> = (0..6).map(|_| Child::spin(Some(&group), None)).collect();
            pass(300);
            let [near, far] = moves(&children, 3000);
            println!("moves within a cache {near}, to another one {far}");
            let shares = shares(&children.iter().collect::<Vec<_>>(), 3000);
            println!("{shares:?}");
            // Six threads on four CPUs, of which this test takes a little.
            assert!(shares.iter().all(|share| (580..=720).contains(share)), "{shares:?}");
            assert!(near + far > 20 && far * 2 < near, "{near} within a cache, {far} to another one");
            machine.scx().grant().check().unwrap();
        }

        fn no_cpu_idles_beside_a_full_cache() {
            let _first = RealTime::begin();
            let (be, machine) = on_all_cpus();
            let group = be.child("all");
            four_of_one_cache_have_a_cpu_each(&group);
            machine.scx().grant().check().unwrap();
        }

        #[ignore = "CI has the same of best-effort threads: make soak"]
        fn latency_critical_threads_of_a_full_cache_run_in_the_other() {
            let _first = RealTime::begin();
            let lc = Group::new("lc");
            let mut machine = Machine::with(ScxOptions::default());
            let id = machine.attach("lc", Class::LatencyCritical);
            machine.apply(&rights(id, CPUS, CPUS, 0), &[]);
            four_of_one_cache_have_a_cpu_each(&lc);
            machine.scx().grant().check().unwrap();
        }
    }
}
