//! Real-time threads that hog a CPU.

use std::path::Path;
use std::time::{Duration, Instant};

use quell_guest::lab_tests;
use quell_model::Nanos;

use crate::support::*;

/// Has the CPU for itself, before everything that is not real-time, for 4 s; then it sleeps.
fn hog_for_4_s() {
    name(c"greedy");
    set_class(libc::SCHED_FIFO, 10);
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {}
    set_class(libc::SCHED_OTHER, 0);
    loop {
        pass(1000);
    }
}

fn name(name: &std::ffi::CStr) {
    // SAFETY: a string that ends with zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

fn spin_as_victim() {
    name(c"victim");
    loop {
        std::hint::spin_loop();
    }
}

lab_tests! {
    mod hogs {
        machine: guest(2);

        fn threads_behind_a_real_time_hog_are_named_and_go_on_after_it() {
            let _first = RealTime::begin();
            let mut machine = Machine::load();
            let pinned = Child::run(None, Some(1), spin_as_victim);
            let free = Child::spin(None, None);
            pass(200);
            let now = monotonic;
            // This test's own thread, too, is one that others wait behind.
            let is_stuck = |machine: &Machine| machine.scx().grant().stuck(now()).unwrap().iter().any(|stuck| stuck.tid == pinned.0 as u32);
            assert!(!is_stuck(&machine), "no one hogs its CPU yet");
            let hog = Child::run(None, Some(1), hog_for_4_s);
            pass(1500);
            let before = free.ran();
            let stuck = machine.scx().grant().stuck(now() - Nanos::from_millis(500)).unwrap();
            println!("{stuck:?}");
            machine.observe();
            let reported = machine.scx().stuck().to_vec();
            let movable = |stuck: &&quell_scx::Stuck| stuck.name.starts_with("kworker/u");
            assert_eq!(stuck.iter().find(movable), None, "it was put behind the hog, though it may run elsewhere");
            pass(1000);
            let moved_on = (free.ran() - before).as_millis();
            assert!(moved_on > 300, "it may run elsewhere: {moved_on} ms in 1000");
            let server = Path::new("/sys/kernel/debug/sched/ext_server").exists();
            if server {
                // This kernel gives such threads 5 % of the CPU, so they may be seen while they run.
                assert!(pinned.ran().as_millis() > 0);
            } else {
                let victim = stuck.iter().find(|stuck| stuck.tid == pinned.0 as u32).expect("the pinned thread is stuck");
                assert_eq!((victim.name.as_str(), victim.cpu.0), ("victim", 1));
                assert_eq!((victim.behind.name.as_str(), victim.behind.tid), ("greedy", hog.0 as u32));
                assert!(now() - victim.since > Nanos::from_millis(500), "{victim:?}");
                assert!(reported.iter().any(|stuck| (stuck.tid, stuck.behind.tid) == (victim.tid, hog.0 as u32)), "{reported:?}");
            }
            assert!(stuck.iter().all(|stuck| stuck.tid != free.0 as u32), "{stuck:?}");
            pass(3000);
            let later = shares(&[&pinned], 500)[0];
            assert!(later > 300, "{later}");
            assert!(!is_stuck(&machine));
            machine.observe();
            assert!(machine.scx().stuck().iter().all(|stuck| stuck.tid != pinned.0 as u32), "{:?}", machine.scx().stuck());
            machine.scx().grant().check().unwrap();
        }
    }
}
