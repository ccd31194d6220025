//! What a switch costs in instructions, in lock-step: best-effort threads, one latency-critical workload's, and those of
//! workloads that hold CPUs as one.

use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use quell_lab::{Lockstep, lab_tests};
use quell_model::{Class, Rule};
use quell_scx::{Parts, ScxOptions};

use crate::support::*;

const MIPS: u64 = 250;
const MOST: usize = 8;

/// The pipes of a ring, and where the next child reads.
static RING: AtomicPtr<([[i32; 2]; MOST], usize, usize)> = AtomicPtr::new(std::ptr::null_mut());

fn yields() {
    loop {
        // SAFETY: a system call without pointers.
        unsafe { libc::sched_yield() };
    }
}

/// Passes a byte on: from the one before it in the ring to the one after it.
fn passes_on() {
    // SAFETY: set before the child was born, and never freed.
    let (pipes, from, threads) = unsafe { &*RING.load(Acquire) };
    let (from, to) = (pipes[*from][0], pipes[(from + 1) % threads][1]);
    let mut byte = 0u8;
    loop {
        // SAFETY: a byte of this stack; both pipes stay open.
        unsafe {
            libc::read(from, (&raw mut byte).cast(), 1);
            libc::write(to, (&raw const byte).cast(), 1);
        }
    }
}

/// Instructions a switch of so many threads that take turns in these cgroups.
fn switch(groups: &[&Group], threads: usize, by_pipe: bool) -> u64 {
    let mut pipes = [[0; 2]; MOST];
    // SAFETY: room for two numbers each.
    pipes[..threads].iter_mut().for_each(|pipe| assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0));
    let child = |at: usize| {
        RING.store(Box::leak(Box::new((pipes, at, threads))), Release);
        Child::run(Some(groups[at % groups.len()]), None, if by_pipe { passes_on } else { yields })
    };
    let children: Vec<Child> = (0..threads).map(child).collect();
    // SAFETY: a byte that is there.
    unsafe { libc::write(pipes[0][1], [1u8].as_ptr().cast(), 1) };
    let turns = || children.iter().map(Child::turns).sum::<u64>();
    pass(100);
    let (begin, before) = (monotonic().0, turns());
    pass(400);
    let cost = (monotonic().0 - begin) * MIPS / 1000 / (turns() - before).max(1);
    drop(children);
    // SAFETY: descriptors of this test.
    pipes[..threads].as_flattened().iter().for_each(|&end| assert_eq!(unsafe { libc::close(end) }, 0));
    cost
}

/// Two and eight threads that yield, and that pass a byte on by pipe.
fn costs(groups: &[&Group]) -> [u64; 4] {
    [(2, false), (8, false), (2, true), (8, true)].map(|(threads, by_pipe)| switch(groups, threads, by_pipe))
}

/// Best-effort threads, latency-critical ones of one workload and, if they can, of two that hold CPUs as one: all in one of them, and
/// in both by turns.
fn all_costs(together: bool) -> [[u64; 4]; 4] {
    let groups = ["lc", "be", "one", "other"].map(Group::new);
    let parts = Parts { together, ..Parts::default() };
    let mut machine = Machine::with(ScxOptions { parts, ..ScxOptions::default() });
    let classes = [Class::LatencyCritical, Class::BestEffort, Class::LatencyCritical, Class::LatencyCritical];
    let names = ["lc", "be", "one", "other"];
    let ids: Vec<_> = names.iter().zip(classes).map(|(name, class)| machine.attach(name, class)).collect();
    machine.apply(&rights(ids[1], 0, 1, 1), &[]);
    let best_effort = costs(&[&groups[1]]);
    machine.apply(&rights(ids[0], 1, 1, 0), &[]);
    let critical = costs(&[&groups[0]]);
    let (mut as_one, mut by_turns) = ([0; 4], [0; 4]);
    if together {
        let together = [2, 3].map(|at| Rule::Together { workload: ids[at], leader: Some(ids[2]) });
        machine.apply(&together, &[]);
        machine.apply(&rights(ids[2], 1, 1, 0), &[]);
        as_one = costs(&[&groups[2]]);
        by_turns = costs(&[&groups[2], &groups[3]]);
    }
    machine.scx().grant().check().unwrap();
    [best_effort, critical, as_one, by_turns]
}

lab_tests! {
    mod switches {
        machine: quell_lab::Machine {
            settle_s: 1,
            kernel: std::env::var("QUELL_TEST_KERNEL").ok(),
            ..quell_lab::Machine::measuring(2, Lockstep { serial: true, mips: MIPS as u32, quantum_ns: 10_000 }, Vec::new())
        };

        fn workloads_that_hold_cpus_as_one_make_them_little_dearer() {
            let _first = RealTime::begin();
            let [[plain, lc_alone, ..], [best_effort, lc, as_one, by_turns]] = [false, true].map(all_costs);
            println!("instructions a switch: 2 and 8 threads that yield, 2 and 8 in a ring of pipes");
            for (what, costs) in [
                ("best-effort threads", plain),
                ("a latency-critical workload", lc_alone),
                ("best-effort threads, `together` loaded", best_effort),
                ("a latency-critical workload, `together` loaded", lc),
                ("one of two workloads that hold CPUs as one", as_one),
                ("both by turns", by_turns),
            ] {
                println!("{what}: {costs:?}");
            }
            for at in 0..4 {
                assert!(by_turns[at] * 4 < plain[at] * 5, "a quarter dearer: {by_turns:?}, {plain:?}");
                assert!(lc[at] * 4 < lc_alone[at] * 5, "a quarter dearer: {lc:?}, {lc_alone:?}");
            }
        }
    }
}
