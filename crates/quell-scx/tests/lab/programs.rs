//! The kernel takes every program, and how hard that is for its verifier.

use crate::support::*;
use quell_lab::lab_tests;
use quell_scx::ScxOptions;

/// The verifier gives up at a million; beyond this, loading takes seconds.
const MOST: u64 = 300_000;

fn load_all(servers: bool) {
    let machine = Machine::with(ScxOptions { servers, ..ScxOptions::default() });
    let programs = machine.scx().grant().programs();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    println!("{}: {} programs, servers: {servers}", release.trim(), programs.len());
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
            load_all(false);
        }

        fn the_kernel_takes_those_with_servers() {
            load_all(true);
        }
    }
}
