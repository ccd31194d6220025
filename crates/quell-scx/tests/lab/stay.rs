//! Best-effort threads that stay on their CPU while somebody else has it.

use std::time::{Duration, Instant};

use quell_lab::lab_tests;
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
    Machine::with(ScxOptions { slices, ..ScxOptions::default() })
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
            pass(300);
            machine.observe();
            pass(300);
            let beside_long = shares(&[&work[0], &work[1]], 1000);
            assert!(beside_long.iter().all(|&share| share > 250), "one CPU for both: {beside_long:?}");
            drop(long);
            pass(300);
            let alone = shares(&[&work[0], &work[1]], 1000);
            assert!(alone.iter().all(|&share| share > 600), "{alone:?}");
            machine.host.grant().check().unwrap();
        }

        fn who_stays_behind_a_brief_latency_critical_thread_is_fetched_from_behind_a_long_one() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = with_long_slices();
            machine.attach_pair(1);
            // With three threads on two CPUs one always waits in the queue.
            let work = [0, 1, 2].map(|_| Child::spin(Some(&be_group), None));
            pass(300);
            let brief = Child::run(Some(&lc_group), None, come_and_go);
            pass(300);
            let mut at_once = 0;
            let served = brief.ran();
            for _ in 0..100 {
                let before = work.each_ref().map(Child::ran);
                pass(5);
                at_once += usize::from(work.iter().zip(before).all(|(child, before)| child.ran() > before));
            }
            let served = (brief.ran() - served).as_millis();
            println!("in {at_once} of 100 looks, ten visits each, all three ran; the visitor had {served} ms");
            assert!(at_once < 50, "who made way goes on, and not who waits: {at_once}");
            assert!(served > 20, "{served} ms");
            drop(brief);

            let long = Child::spin(Some(&lc_group), None);
            pass(500);
            let beside_long = shares(&[&long, &work[0], &work[1], &work[2]], 1000);
            assert!(beside_long[0] > 700, "{beside_long:?}");
            assert!(beside_long[1..].iter().all(|&share| share > 150), "one CPU for all three: {beside_long:?}");
            drop(long);
            pass(300);
            let alone = shares(&[&work[0], &work[1], &work[2]], 1000);
            assert!(alone.iter().all(|&share| share > 400), "{alone:?}");
            machine.host.grant().check().unwrap();
        }

        fn who_made_way_leaves_the_cpu_to_latency_critical_threads_that_wait() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = Machine::load();
            machine.attach_pair(1);
            let hogs = [0, 1].map(|_| Child::spin(Some(&be_group), None));
            // Together they want a CPU for a tenth each of the time, and mostly find each other there.
            let visitors = [0; 4].map(|_| Child::run(Some(&lc_group), Some(1), come_and_go));
            pass(300);
            let before: Vec<_> = visitors.iter().map(Child::ran).collect();
            pass(1000);
            let served: Vec<_> = visitors.iter().zip(before).map(|(child, before)| (child.ran() - before).as_millis()).collect();
            println!("{served:?} ms");
            assert!(served.iter().all(|&ms| ms > 40), "each comes at least 800 times a second: {served:?}");
            assert!(hogs.iter().all(|hog| hog.ran().as_millis() > 300));
            machine.host.grant().check().unwrap();
        }
    }
}
