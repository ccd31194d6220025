//! The kernel's threads of one CPU, beside latency-critical work.

use std::fs;
use std::time::{Duration, Instant};

use quell_lab::lab_tests;
use quell_model::Class;

use crate::support::*;

/// A kworker of each CPU runs, and this waits for all: so long.
fn refresh() -> Duration {
    let start = Instant::now();
    fs::read("/proc/sys/vm/stat_refresh").unwrap();
    start.elapsed()
}

lab_tests! {
    mod upkeep {
        machine: guest(2);

        /// As threads of the system they would wait for 50 ms each time.
        fn the_kernels_threads_of_a_cpu_run_at_once_beside_latency_critical_work() {
            let _first = RealTime::begin();
            let group = Group::new("lc");
            let mut machine = Machine::load();
            let lc = machine.attach("lc", Class::LatencyCritical);
            machine.apply(&rights(lc, 2, 2, 0), &[]);
            let servers = [0, 1].map(|_| Child::spin(Some(&group), None));
            pass(200);
            let before = servers.each_ref().map(|server| server.ran());
            let start = Instant::now();
            let mut took: Vec<_> = (0..200).map(|_| { pass(5); refresh() }).collect();
            let span = start.elapsed();
            took.sort();
            let ran: Duration = servers.iter().zip(before).map(|(server, before)| server.ran() - before).sum();
            let share = ran.as_micros() * 1000 / (2 * span.as_micros());
            println!("the kernel's threads: median {:?}, p99 {:?}; the server has {share}", took[100], took[197]);
            machine.scx().grant().check().unwrap();
            assert!(took[100].as_millis() < 10 && took[180].as_millis() < 25, "{:?}", &took[100..]);
            assert!(share > 800, "{share}");
        }
    }
}
