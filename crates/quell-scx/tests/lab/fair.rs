//! cpu.weight, cpu.idle and cpu.max, as the scheduler honours them.

use std::time::{Duration, Instant};

use quell_guest::lab_tests;
use quell_model::Class;

use crate::support::*;

/// A best-effort workload on CPU 1, in the cgroup "be", whose children have the cpu controller.
fn on_one_cpu() -> (Group, Machine) {
    let be = Group::with_controller("be");
    let mut machine = Machine::shared();
    let id = machine.attach("be", Class::BestEffort);
    machine.apply(&rights(id, 0, 1, 0), &[]);
    machine.grant(&[(1, id)]);
    (be, machine)
}

/// Runs them until the others have the part of the first one's time, in hundredths, that `right` says.
fn ratio(children: &[&Child], milliseconds: u64, right: impl Fn(&[u128]) -> bool) {
    shares_until(children, milliseconds, |shares| {
        right(&shares.iter().map(|share| share * 100 / shares[0].max(1)).collect::<Vec<_>>())
    });
}

lab_tests! {
    mod fair {
        machine: guest(2);

        fn weights_divide_a_cpu() {
            let _first = RealTime::begin();
            let (be, machine) = on_one_cpu();
            let (heavy, light) = (be.child("heavy"), be.child("light"));
            heavy.set("cpu.weight", "300");
            let (a, b) = (Child::spin(Some(&heavy), None), Child::spin(Some(&light), None));
            pass(200);
            // 100 to 300.
            ratio(&[&a, &b], 4000, |parts| (30..=37).contains(&parts[1]));
            // Another thread in the light group takes from its sibling, not from the heavy one.
            let c = Child::spin(Some(&light), None);
            pass(200);
            ratio(&[&a, &b, &c], 3000, |parts| (30..=37).contains(&(parts[1] + parts[2])));
            // A change of the weight holds at once.
            heavy.set("cpu.weight", "100");
            pass(200);
            ratio(&[&a, &b, &c], 3000, |parts| (90..=110).contains(&(parts[1] + parts[2])));
            machine.scx().grant().check().unwrap();
        }

        fn weights_hold_among_threads_bound_to_a_cpu_whatever_runs_on_the_other() {
            let _first = RealTime::begin();
            let be = Group::with_controller("be");
            let mut machine = Machine::shared();
            let id = machine.attach("be", Class::BestEffort);
            machine.apply(&rights(id, 0, 2, 0), &[]);
            machine.grant(&[(0, id), (1, id)]);
            let (heavy, light, other) = (be.child("heavy"), be.child("light"), be.child("other"));
            heavy.set("cpu.weight", "300");
            let threads = [(&heavy, 1), (&light, 1), (&other, 0)].map(|(group, cpu)| Child::spin(Some(group), Some(cpu)));
            pass(200);
            ratio(&[&threads[0], &threads[1], &threads[2]], 4000, |parts| (30..=37).contains(&parts[1]));
            machine.scx().grant().check().unwrap();
        }

        fn weights_of_nested_groups_multiply() {
            let _first = RealTime::begin();
            let (be, machine) = on_one_cpu();
            let (upper, other) = (be.child_with_controller("upper"), be.child("other"));
            let (left, right) = (upper.child("left"), upper.child("right"));
            upper.set("cpu.weight", "300");
            left.set("cpu.weight", "200");
            let threads = [&other, &left, &right].map(|group| Child::spin(Some(group), None));
            pass(200);
            // 1 : 2 : 1.
            ratio(&[&threads[0], &threads[1], &threads[2]], 3000, |parts| {
                (180..=220).contains(&parts[1]) && (90..=110).contains(&parts[2])
            });
            machine.scx().grant().check().unwrap();
        }

        fn who_sleeps_leaves_its_share_to_the_others() {
            let _first = RealTime::begin();
            let (be, machine) = on_one_cpu();
            let (a, b) = (be.child("a"), be.child("b"));
            a.set("cpu.weight", "1000");
            let spins = Child::spin(Some(&b), None);
            let sleeps = Child::run(Some(&a), None, || loop {
                let end = Instant::now() + Duration::from_millis(2);
                while Instant::now() < end {}
                pass(8);
            });
            pass(200);
            shares_until(&[&spins, &sleeps], 2000, |shares| shares[0] > 600 && shares[1] > 60);
            machine.scx().grant().check().unwrap();
        }

        fn an_idle_group_gets_what_is_left() {
            let _first = RealTime::begin();
            let (be, machine) = on_one_cpu();
            let (busy, idle) = (be.child("busy"), be.child("idle"));
            idle.set("cpu.idle", "1");
            let low = Child::spin(Some(&idle), None);
            pass(200);
            shares_until(&[&low], 500, |shares| shares[0] > 800);
            let high = Child::spin(Some(&busy), None);
            pass(200);
            // A starving thread has a tick every half second, 8 of 1000: a rule for all. A busy host makes ticks longer.
            shares_until(&[&low, &high], 2000, |shares| shares[0] < 20 && shares[1] > 800);
            high.signal(libc::SIGSTOP);
            pass(100);
            shares_until(&[&low], 500, |shares| shares[0] > 800);
            machine.scx().grant().check().unwrap();
        }

        fn a_quota_is_kept_and_everything_lives() {
            let _first = RealTime::begin();
            let (be, machine) = on_one_cpu();
            let (limited, free) = (be.child("limited"), be.child("free"));
            limited.set("cpu.max", "20000 100000");
            let threads = [0, 1].map(|_| Child::spin(Some(&limited), None));
            let all = [&threads[0], &threads[1]];
            pass(300);
            // 20 %.
            shares_until(&all, 3000, |shares| {
                (180..=220).contains(&shares.iter().sum::<u128>()) && shares.iter().all(|&share| share > 50)
            });
            let other = Child::spin(Some(&free), None);
            pass(300);
            shares_until(&[&threads[0], &threads[1], &other], 3000, |shares| {
                (180..=220).contains(&(shares[0] + shares[1])) && shares[2] > 700
            });
            limited.set("cpu.max", "max 100000");
            pass(300);
            shares_until(&all, 1000, |shares| shares.iter().sum::<u128>() > 350);
            machine.scx().grant().check().unwrap();
        }

        fn the_quota_of_the_group_above_holds_for_all_below() {
            let _first = RealTime::begin();
            let (be, machine) = on_one_cpu();
            let upper = be.child_with_controller("upper");
            let (left, right) = (upper.child("left"), upper.child("right"));
            upper.set("cpu.max", "30000 100000");
            left.set("cpu.max", "10000 100000");
            let threads = [&left, &right].map(|group| Child::spin(Some(group), None));
            pass(300);
            // 10 % of 30 %.
            shares_until(&[&threads[0], &threads[1]], 3000, |shares| {
                (85..=115).contains(&shares[0]) && (270..=330).contains(&(shares[0] + shares[1]))
            });
            machine.scx().grant().check().unwrap();
        }

        fn the_system_is_divided_by_weight_too() {
            let _first = RealTime::begin();
            let machine = Machine::shared();
            let (heavy, light) = (Group::new("heavy"), Group::new("light"));
            heavy.set("cpu.weight", "300");
            let (a, b) = (Child::spin(Some(&heavy), Some(1)), Child::spin(Some(&light), Some(1)));
            pass(200);
            // 100 to 300.
            ratio(&[&a, &b], 4000, |parts| (30..=37).contains(&parts[1]));
            // Also beside threads that may use both CPUs, and one that has the other CPU: these have other clocks.
            let others = Group::new("others");
            let beside = [None, None, Some(0)].map(|cpu| Child::spin(Some(&others), cpu));
            pass(200);
            ratio(&[&a, &b, &beside[0], &beside[1], &beside[2]], 4000, |parts| {
                (25..=42).contains(&parts[1]) && parts[2..].iter().all(|&part| part > 0)
            });
            machine.scx().grant().check().unwrap();
        }

        fn the_quota_of_a_latency_critical_workload_holds() {
            let _first = RealTime::begin();
            let lc = Group::new("lc");
            lc.set("cpu.max", "40000 100000");
            let mut machine = Machine::shared();
            let id = machine.attach("lc", Class::LatencyCritical);
            machine.apply(&rights(id, 1, 1, 0), &[]);
            let server = Child::spin(Some(&lc), None);
            pass(300);
            // 40 %.
            shares_until(&[&server], 3000, |shares| (360..=440).contains(&shares[0]));
            machine.scx().grant().check().unwrap();
        }
    }
}
