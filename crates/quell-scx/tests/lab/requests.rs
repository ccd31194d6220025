//! The request clock and the bans that end with a request.

use std::time::{Duration, Instant};

use quell_guest::lab_tests;
use quell_model::{Class, CpuId, Nanos, Rule};

use crate::support::*;

/// Reads from a pipe in which there is always something, works on it for 20 ms, and never sleeps.
fn read_and_work() {
    let mut ends = [0; 2];
    // SAFETY: a local array of two.
    unsafe { libc::pipe(ends.as_mut_ptr()) };
    let mut byte = [0_u8];
    loop {
        // SAFETY: one byte from and to a local array, through a pipe of this process.
        unsafe {
            libc::write(ends[1], byte.as_ptr().cast(), 1);
            libc::read(ends[0], byte.as_mut_ptr().cast(), 1);
        }
        work(20);
    }
}

fn work(milliseconds: u64) {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < end {}
}

/// When the request of CPU 1 began, as seen every 5 ms; only the changes.
fn starts(machine: &mut Machine, milliseconds: u64) -> Vec<Nanos> {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    let mut starts = Vec::new();
    while Instant::now() < end {
        let view = machine.observe();
        let sample = view.cpus.request_start[1];
        if sample.usable().is_some() {
            starts.push(sample.value);
        }
        pass(5);
    }
    starts.dedup();
    starts
}

lab_tests! {
    mod requests {
        machine: quell_guest::Machine {
            topology: Some(quell_guest::Topology { sockets: 1, cores: 1, threads: 2 }),
            ..guest(2)
        };

        fn a_request_begins_when_a_busy_thread_reads_it() {
            let _first = RealTime::begin();
            let lc_group = Group::new("lc");
            let mut machine = Machine::load();
            let lc = machine.attach("lc", Class::LatencyCritical);
            machine.apply(&rights(lc, 1, 1, 0), &[]);
            let reader = Child::run(Some(&lc_group), Some(1), read_and_work);
            pass(100);
            let read = starts(&mut machine, 1000);
            assert!(read.len() > 8, "{read:?}");
            assert!(read.is_sorted(), "{read:?}");
            drop(reader);
            // Who reads nothing works on one request for ever.
            let _spinner = Child::spin(Some(&lc_group), Some(1));
            pass(100);
            let spun = starts(&mut machine, 1000);
            assert!(spun.len() * 3 < read.len(), "{spun:?} beside {read:?}");
        }

        fn a_ban_ends_when_the_busy_thread_reads_the_next_request() {
            let _first = RealTime::begin();
            let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
            let mut machine = Machine::load();
            let (_lc, _be) = machine.attach_pair(1);
            let _reader = Child::run(Some(&lc_group), Some(1), read_and_work);
            let _hog = Child::spin(Some(&be_group), None);
            pass(200);
            let mut held = 0;
            for _ in 0..50 {
                let start = machine.observe().cpus.request_start[1];
                if start.usable().is_none() {
                    pass(5);
                    continue;
                }
                machine.apply(&[Rule::SiblingBan { cpu: CpuId(1), request_start: start.value }], &[]);
                held += usize::from(machine.observe().cpus.banned.contains(CpuId(0)));
                pass(60);
                let now = machine.observe().cpus.request_start[1];
                if now.usable().is_some() && now.value != start.value {
                    assert!(!machine.observe().cpus.banned.contains(CpuId(0)), "the next request inherited the ban");
                }
            }
            assert!(held > 10, "{held} of 50 bans were seen to hold");
        }
    }
}
