//! Best-effort threads that stay on their CPU while somebody else has it.

use std::time::{Duration, Instant};

use quell_guest::lab_tests;
use quell_model::{Class, CpuId, Event, Nanos};
use quell_scx::{ScxOptions, Slices};

use crate::support::*;

/// Wants a CPU for a moment, twice a millisecond.
fn come_and_go() {
    loop {
        let end = Instant::now() + Duration::from_micros(50);
        while Instant::now() < end {}
        std::thread::sleep(Duration::from_micros(450));
    }
}

fn come_and_go_in_real_time() {
    set_class(libc::SCHED_FIFO, 10);
    come_and_go();
}

fn hog_in_real_time() {
    set_class(libc::SCHED_FIFO, 10);
    loop {
        std::hint::spin_loop();
    }
}

/// Whose slice is over goes to its queue: that seldom happens here.
fn with_long_slices() -> Machine {
    let slices = Slices { be: Nanos::from_millis(100), ..Slices::default() };
    Machine::shared_with(ScxOptions { slices, ..ScxOptions::default() })
}

fn each_has_a_cpu(work: &[Child; 2]) {
    pass(300);
    let shares = shares(&[&work[0], &work[1]], 1000);
    assert!(shares.iter().all(|&share| share > 600), "{shares:?}");
}

lab_tests! {
    mod stay {
        machine: guest(2);

        fn who_stays_behind_a_brief_real_time_thread_is_fetched_from_behind_a_long_one() {
            let _first = RealTime::begin();
            let mut machine = with_long_slices();
            let group = Group::new("be");
            let be = machine.attach("be", Class::BestEffort);
            machine.apply(&rights(be, 0, 2, 1), &[]);
            let work = [Child::spin(Some(&group), None), Child::spin(Some(&group), None)];
            pass(300);
            let short = Child::run(None, Some(1), come_and_go_in_real_time);
            pass(300);
            let beside_short = shares(&[&work[0], &work[1]], 1000);
            assert!(beside_short.iter().sum::<u128>() > 800, "{beside_short:?}");
            let mut yielded = 0;
            for _ in 0..100 {
                pass(5);
                machine.observe();
                yielded += usize::from(machine.events.contains(&Event::Yielded(CpuId(1), be)));
            }
            println!("beside a short one: {beside_short:?}, yielded between {yielded} of 100 looks");
            assert!(yielded < 50, "ten times between two looks the CPU goes on being held: {yielded}");
            drop(short);

            let long = Child::run(None, Some(1), hog_in_real_time);
            // The loop looks again and again: some kernels give sched_ext a turn beside the hog, and somebody stays there anew.
            let mut look_for = |milliseconds: u64| {
                for _ in 0..milliseconds / 50 {
                    pass(50);
                    machine.observe();
                }
            };
            look_for(600);
            let before = work.each_ref().map(Child::ran);
            look_for(2000);
            let ran: Vec<_> = work.iter().zip(before).map(|(child, before)| (child.ran() - before).as_millis()).collect();
            assert!(ran.iter().all(|&ran| ran > 500), "one CPU for both: {ran:?} ms of 2000");
            drop(long);
            each_has_a_cpu(&work);
            machine.scx().grant().check().unwrap();
        }

        fn who_makes_way_for_a_brief_latency_critical_thread_goes_on_after_it() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = with_long_slices();
            machine.attach_pair(1);
            let work = [0, 1, 2].map(|_| Child::spin(Some(&be_group), Some(1)));
            let visitor = Child::run(Some(&lc_group), Some(1), come_and_go);
            pass(600);
            let served = visitor.ran();
            let changes = (0..100).map(|_| {
                let before = work.each_ref().map(Child::ran);
                pass(5);
                work.iter().zip(before).filter(|(child, before)| child.ran() > *before).count().saturating_sub(1)
            });
            let changes: usize = changes.sum();
            let served = (visitor.ran() - served).as_millis();
            println!("one followed another {changes} times in 100 looks, ten visits each; the visitor had {served} ms");
            assert!(changes < 50, "{changes}");
            assert!(served > 20, "{served} ms");
            machine.scx().grant().check().unwrap();
        }

        fn who_made_way_for_one_that_does_not_sleep_goes_on_elsewhere() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = with_long_slices();
            machine.attach_pair(1);
            let work = [0, 1].map(|_| Child::spin(Some(&be_group), None));
            pass(300);
            let hog = Child::spin(Some(&lc_group), None);
            pass(600);
            let shares_of_all = shares(&[&hog, &work[0], &work[1]], 1000);
            println!("{shares_of_all:?}");
            assert!(shares_of_all[0] > 700, "{shares_of_all:?}");
            assert!(shares_of_all[1..].iter().all(|&share| share > 250), "one CPU for both: {shares_of_all:?}");
            drop(hog);
            each_has_a_cpu(&work);
            machine.scx().grant().check().unwrap();
        }
    }
}
