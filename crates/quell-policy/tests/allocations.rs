//! After warm-up no policy allocates in `step`.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

use common::every_policy;
use quell_model::{
    CpuCount, Description, Event, LeaseLimits, Nanos, Plan, Policy, Stack, Topology, View, Wake, WorkloadId,
};
use quell_policy::AnyPolicy;
use quell_toy::{Arrivals, Machine, ToyHost, ToyWorkload};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is the system allocator's, with the same arguments; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is the system allocator's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A policy whose allocations are counted, those of steps that report a failure in words apart.
struct Counted {
    policy: AnyPolicy,
    allocations: Cell<u64>,
    steps: Cell<u64>,
    commands: Cell<u64>,
}

fn add(to: &Cell<u64>, more: u64) {
    to.set(to.get() + more);
}

impl Policy for Counted {
    fn describe(&self) -> &'static Description {
        self.policy.describe()
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        let before = ALLOCATIONS.get();
        let wake = self.policy.step(view, events, plan);
        let here = ALLOCATIONS.get() - before;
        let in_words = plan.notes.iter().any(|note| matches!(note.text, Cow::Owned(_)));
        add(&self.allocations, if in_words { 0 } else { here });
        add(&self.steps, 1);
        add(&self.commands, u64::from(!plan.is_idle()));
        wake
    }
}

/// A machine on which every controller has something to do: with requests for policies that act in microseconds, with
/// threads for the others.
fn busy_host(fast: bool) -> ToyHost {
    let mut host = ToyHost::new(Topology::synthetic(1, 1, 8, 2), Machine::default());
    host.limit_leases(LeaseLimits { duty_per_mille: 500, ..LeaseLimits::default() });
    for seed in 0..4 {
        let server = ToyWorkload::lc(&format!("server{seed}"), CpuCount::whole(2)).cache(6.0, 0.9).bandwidth(0.5e9);
        let arrivals = Arrivals::Poisson { mean: Nanos::from_micros(150), seed };
        let server = if fast { server.requests(arrivals, Nanos::from_micros(50)) } else { server.threads(&[0.8, 0.5]) };
        host.attach(server);
    }
    for number in 0..4 {
        let batch = ToyWorkload::be(&format!("batch{number}")).bandwidth(3e9);
        let endless = |load: ToyWorkload| load.requests(Arrivals::Endless, Nanos::from_micros(50));
        host.attach(if fast { endless(batch) } else { batch.threads(&[1.0; 4]) });
    }
    host
}

/// The servers' behaviour changes every few slices of time: load, cache and memory.
fn run_slices(host: &mut ToyHost, stack: &mut Stack<Counted>, slice: Nanos) {
    for number in 0..10 {
        let (bandwidth, ways) = if number < 5 { (0.5e9, 6.0) } else { (4e9, 0.0) };
        for id in (0..4).map(WorkloadId) {
            host.change(id, |load| (load.bandwidth.0, load.cache.ways) = (bandwidth, ways));
        }
        // Policies that step at events alone step here, too.
        stack.hasten();
        let until = host.now() + slice;
        quell_toy::run(host, stack, until, |_, _| {});
    }
}

#[test]
fn no_policy_allocates_in_a_step_after_warm_up() {
    let mut commands = BTreeMap::new();
    for policy in every_policy() {
        let name = policy.describe().name;
        let fast = policy.describe().interval < Nanos::from_millis(1) && policy.describe().grants;
        let slice = if fast { Nanos::from_millis(3) } else { Nanos::from_millis(400) };
        let mut host = busy_host(fast);
        let counted = Counted { policy, allocations: 0.into(), steps: 0.into(), commands: 0.into() };
        let mut stack = Stack::of_one(counted, host.view());
        run_slices(&mut host, &mut stack, slice);
        let counted = &stack.first().policy;
        [&counted.allocations, &counted.steps, &counted.commands].iter().for_each(|count| count.set(0));
        run_slices(&mut host, &mut stack, slice);
        let counted = &stack.first().policy;
        let steps = counted.steps.get();
        assert!(steps >= 10, "{name} stepped {steps} times");
        assert_eq!(counted.allocations.get(), 0, "{name}: in {steps} steps");
        *commands.entry(name).or_insert(0) += counted.commands.get();
    }
    // Not with each parameter: where rules stand at the event, as by default in caladan, little is left to do.
    for name in ["caladan", "shenango", "elfen", "his"] {
        assert!(commands[name] > 0, "{name} had nothing to do");
    }
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    std::hint::black_box(Box::new(7));
    assert!(ALLOCATIONS.get() > before);
}
