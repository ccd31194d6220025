//! What a switch costs in instructions, in lock-step: best-effort threads, one latency-critical workload's, and those of
//! workloads that hold CPUs as one.

use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use quell_guest::{Lockstep, lab_tests};
use quell_model::{Class, CpuCount, QueueOrder, Rule, Selector, Workload};
use quell_scx::{Parts, ScxOptions};

use crate::support::*;

pub const MIPS: u64 = 250;
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

/// Threads that take turns.
pub struct Ring {
    pub children: Vec<Child>,
    pipes: Vec<[i32; 2]>,
}

impl Ring {
    /// This many in these cgroups: they yield, or pass a byte on.
    pub fn begin(groups: &[&Group], threads: usize, by_pipe: bool) -> Ring {
        let mut pipes = [[0; 2]; MOST];
        // SAFETY: room for two numbers each.
        pipes[..threads].iter_mut().for_each(|pipe| assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0));
        let child = |at: usize| {
            RING.store(Box::leak(Box::new((pipes, at, threads))), Release);
            Child::run(Some(groups[at % groups.len()]), None, if by_pipe { passes_on } else { yields })
        };
        let children = (0..threads).map(child).collect();
        // SAFETY: a byte that is there.
        unsafe { libc::write(pipes[0][1], [1u8].as_ptr().cast(), 1) };
        Ring { children, pipes: pipes[..threads].to_vec() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.children.clear();
        // SAFETY: descriptors of this test.
        self.pipes.as_flattened().iter().for_each(|&end| assert_eq!(unsafe { libc::close(end) }, 0));
    }
}

/// Instructions a switch of this many threads that take turns in these cgroups.
fn switch(groups: &[&Group], threads: usize, by_pipe: bool) -> u64 {
    let ring = Ring::begin(groups, threads, by_pipe);
    let turns = || ring.children.iter().map(Child::turns).sum::<u64>();
    pass(100);
    let (begin, before) = (monotonic().0, turns());
    pass(400);
    (monotonic().0 - begin) * MIPS / 1000 / (turns() - before).max(1)
}

/// Two and eight threads that yield, and that pass a byte on by pipe.
fn costs(groups: &[&Group]) -> [u64; 4] {
    [(2, false), (8, false), (2, true), (8, true)].map(|(threads, by_pipe)| switch(groups, threads, by_pipe))
}

/// Of best-effort threads in one cgroup and in two by turns, of a latency-critical workload and, if they can, of two that hold CPUs
/// as one, all in one of them and in both by turns.
fn all_costs(together: bool) -> Vec<[u64; 4]> {
    let groups = ["lc", "be", "more", "one", "other"].map(Group::new);
    let [lc, be, more, one, other] = groups.each_ref();
    let parts = Parts { together, ..Parts::default() };
    let mut machine = Machine::with(ScxOptions { parts, ..ScxOptions::default() });
    let mut batch = Workload::new("batch", Class::BestEffort, CpuCount::ZERO);
    batch.selectors = ["be", "more"].map(|name| Selector::Cgroup(name.into())).into();
    let batch = machine.host.attach(batch).unwrap();
    machine.apply(&rights(batch, 0, 1, 1), &[]);
    let mut all = vec![costs(&[be]), costs(&[be, more])];
    let id = machine.attach("lc", Class::LatencyCritical);
    machine.apply(&rights(id, 1, 1, 0), &[]);
    all.push(costs(&[lc]));
    if together {
        let ids = ["one", "other"].map(|name| machine.attach(name, Class::LatencyCritical));
        machine.apply(
            &ids.map(|workload| Rule::Together { workload, leader: Some(ids[0]), order: QueueOrder::Weight }),
            &[],
        );
        machine.apply(&rights(ids[0], 1, 1, 0), &[]);
        let overtaken = machine.scx().grant().decisions().overtaken;
        all.extend([costs(&[one]), costs(&[one, other])]);
        println!("overtaken: {}", machine.scx().grant().decisions().overtaken - overtaken);
    }
    machine.scx().grant().check().unwrap();
    all
}

lab_tests! {
    mod switches {
        machine: quell_guest::Machine {
            settle_s: 1,
            kernel: std::env::var("QUELL_TEST_KERNEL").ok(),
            ..quell_guest::Machine::measuring(2, Lockstep { serial: true, mips: MIPS as u32, quantum_ns: 10_000 }, Vec::new())
        };

        #[ignore = "a boot in lock-step time: make soak"]
        fn a_thread_that_wakes_up_takes_the_shortest_way_to_a_cpu() {
            let _first = RealTime::begin();
            let what = ["a bound thread of no workload", "latency-critical ones, alone", "beside best-effort ones"];
            let all = crate::callbacks::at_wake_ups();
            for (what, costs) in what.iter().zip(&all) {
                println!("{what}: {:.0} instructions a wake-up", costs.values().map(|(_, cost)| cost).sum::<f64>());
                costs.iter().for_each(|(name, (calls, cost))| println!("{calls:>8.2} calls {cost:>6.0} {name}"));
            }
            let calls = |costs: &crate::callbacks::Costs, name: &str| costs.get(name).map_or(0.0, |cost| cost.0);
            assert!(calls(&all[0], "grant_dispatch") < 1.5, "it runs without a decision of the CPU");
            assert!(all[1..].iter().all(|costs| calls(costs, "grant_enqueue") < 0.5), "they were sent when they woke up");
        }

        #[ignore = "a boot in lock-step time: make soak"]
        fn workloads_that_hold_cpus_as_one_make_them_little_dearer() {
            let _first = RealTime::begin();
            let [plain, loaded] = [false, true].map(all_costs);
            println!("instructions a switch: 2 and 8 threads that yield, 2 and 8 in a ring of pipes");
            let what = [
                "best-effort threads",
                "best-effort threads of two cgroups",
                "a latency-critical workload",
                "one of two workloads that hold CPUs as one",
                "both of them by turns",
            ];
            what.iter().zip(&plain).for_each(|(what, costs)| println!("{what}: {costs:?}"));
            what.iter().zip(&loaded).for_each(|(what, costs)| println!("with `together`, {what}: {costs:?}"));
            // Two builds differ by a hundredth. The goals are 5 and 1. In a ring of eight one thread may have run ahead of the others
            // when it began: then it is overtaken each time.
            let is_within = |dear: [u64; 4], cheap: [u64; 4], percent: u64| dear[2] * 100 <= cheap[2] * (100 + percent);
            assert!(is_within(loaded[3], plain[0], 10) && is_within(loaded[4], plain[1], 10), "{loaded:?}, {plain:?}");
            assert!(is_within(loaded[2], plain[2], 5), "where none hold CPUs as one: {loaded:?}, {plain:?}");
        }
    }
}
