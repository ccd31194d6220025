//! The kernel takes every program, and how hard that is for its verifier.

use std::time::Instant;

use crate::support::*;
use quell_guest::lab_tests;
use quell_scx::{Parts, ScxError, ScxOptions};
use quell_trace::{Collector, Options, Sampler};

/// The verifier gives up at a million; beyond this, loading takes seconds.
const MOST: u64 = 300_000;

pub fn load_all(parts: Parts) {
    // Debian's real-time kernels; their reason is reported, and nothing is loaded.
    if std::fs::read_to_string("/proc/sys/kernel/version").is_ok_and(|text| text.contains("PREEMPT_RT")) {
        let refused = quell_scx::ready().unwrap_err();
        println!("{refused}");
        assert!(matches!(refused, ScxError::RealTimeKernel), "{refused:?}");
        return;
    }
    let begun = Instant::now();
    let machine = Machine::with(ScxOptions { parts, ..ScxOptions::default() });
    println!("loaded in {} ms", begun.elapsed().as_millis());
    let programs = machine.scx().grant().programs();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    println!("{}: {} programs, {parts:?}", release.trim(), programs.len());
    for program in &programs {
        println!("{:>8} {}", program.verified_instructions, program.name);
    }
    assert!(programs.len() > 15, "{programs:?}");
    let hard: Vec<_> = programs.iter().filter(|program| program.verified_instructions > MOST).collect();
    assert!(hard.is_empty(), "{hard:?}");
}

lab_tests! {
    mod programs {
        machine: guest(2);

        fn the_kernel_takes_all_of_them() {
            load_all(Parts::default());
        }

        fn the_kernel_takes_those_with_servers() {
            load_all(Parts { servers: true, ..Parts::default() });
        }

        fn the_kernel_takes_those_for_cpus_held_as_one() {
            load_all(Parts { together: true, ..Parts::default() });
        }

        // Their fields change their sizes from one kernel to the next.
        fn the_kernel_takes_what_the_agent_traces_with() {
            let options = Options { events: true, edges: true, soft_interrupts: true, ..Options::default() };
            Collector::open(options).unwrap();
            Sampler::open().unwrap();
        }

        fn the_kernel_takes_all_that_there_is() {
            load_all(Parts { servers: true, together: true, sets: true });
        }
    }
}
