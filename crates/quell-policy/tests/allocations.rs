//! After warm-up no policy allocates in `step`.

mod common;
#[path = "common/crowd.rs"]
mod crowd;

use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

use common::every_policy;
use quell_model::{
    CpuCount, Description, Event, LeaseLimits, Nanos, Outcome, Part, Plan, Policy, Stack, Topology, Verdict, View,
    Wake, WorkloadId,
};
use quell_policy::AnyPolicy;
use quell_sim::contention::ProfileName;
use quell_sim::host::drive;
use quell_sim::workload::Arrivals;
use quell_sim::{KernelConfig, SimHost, WorkloadSpec};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is the system allocator's, with the same arguments; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size() as i64));
        // SAFETY: the caller's promise is the system allocator's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() - layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + size as i64 - layout.size() as i64));
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
/// periodic threads for the others.
fn busy_host(fast: bool, grants: bool) -> SimHost {
    let profile = |name: &str| Some(ProfileName::Known(name.into()));
    let server = |number| {
        let server = WorkloadSpec::lc(format!("server{number}"), CpuCount::whole(2));
        let server = match fast {
            true => server.serving(4, Arrivals::Poisson(6_500.0), Nanos::from_micros(50)),
            false => server.using(2, 0.65),
        };
        WorkloadSpec { profile: profile("memcached"), ..server }
    };
    let batch = |number| WorkloadSpec {
        profile: profile("streaming"),
        ..WorkloadSpec::be(format!("batch{number}")).busy(if fast { 16 } else { 4 })
    };
    let workloads: Vec<WorkloadSpec> = (0..4).map(server).chain((0..4).map(batch)).collect();
    let topology = Topology::synthetic(1, 1, 8, 2);
    let mut host = SimHost::new(topology, KernelConfig::default(), &workloads, 1, grants).unwrap();
    host.limit_leases(LeaseLimits { duty_per_mille: 500, ..LeaseLimits::default() });
    host
}

/// The servers' demand changes every few slices of time.
fn run_slices(host: &mut SimHost, stack: &mut Stack<Counted>, slice: Nanos) {
    for number in 0..10 {
        let demand = if number < 5 { 0.1 } else { 0.4 };
        (0..4).map(WorkloadId).for_each(|id| host.set_demand(id, demand));
        // Policies that step at events alone step here, too.
        stack.hasten();
        let until = host.now() + slice;
        drive(host, stack, until, |_, _| {});
    }
}

#[test]
fn no_policy_allocates_in_a_step_after_warm_up() {
    let mut commands = BTreeMap::new();
    for policy in every_policy() {
        let name = policy.describe().name;
        let fast = policy.describe().interval < Nanos::from_millis(1) && policy.describe().grants;
        let slice = if fast { Nanos::from_millis(3) } else { Nanos::from_millis(400) };
        let mut host = busy_host(fast, policy.describe().grants);
        let counted = Counted { policy, allocations: 0.into(), steps: 0.into(), commands: 0.into() };
        let mut stack = Stack::of_one(counted, host.view());
        // Buffers are as long as the longest plan so far, and the longest is rare: one that comes late is followed by another stretch.
        let mut found = Vec::new();
        for stretch in 0..7 {
            let counted = &stack.first().policy;
            [&counted.allocations, &counted.steps, &counted.commands].iter().for_each(|count| count.set(0));
            run_slices(&mut host, &mut stack, slice);
            let counted = &stack.first().policy;
            found.push((counted.steps.get(), counted.allocations.get()));
            if stretch > 1 && counted.allocations.get() == 0 {
                break;
            }
        }
        let counted = &stack.first().policy;
        let (steps, allocations) = *found.last().unwrap();
        assert!(steps >= 10, "{name} stepped {steps} times");
        assert_eq!(allocations, 0, "{name}, steps and allocations by stretch: {found:?}");
        *commands.entry(name).or_insert(0) += counted.commands.get();
    }
    // Not with each parameter: where rules stand at the event, as by default in caladan, little is left to do.
    for name in ["caladan", "shenango", "elfen", "his", "edgeiso"] {
        assert!(commands[name] > 0, "{name} had nothing to do");
    }
}

/// Steps that name a thread in words apart.
#[test]
fn dasec_with_4096_threads_allocates_nothing_in_a_step_and_takes_less_than_ten_megabytes() {
    for threads in [256, 4_096] {
        let mut view = crowd::view(threads);
        let before = BYTES.get();
        let (mut policy, mut plan, mut quiet) = (AnyPolicy::named("dasec").unwrap(), Plan::default(), 0);
        for number in 1..=100 {
            crowd::pass(&mut view, number);
            let verdict = Verdict::Applied(view.now);
            let applied = [Event::Outcome(Outcome { plan: number - 1, part: Part::Knobs, verdict })];
            plan.begin(number);
            let counted = ALLOCATIONS.get();
            policy.step(&view, &applied, &mut plan);
            let allocations = ALLOCATIONS.get() - counted;
            if number > 40 && plan.notes.is_empty() {
                assert_eq!(allocations, 0, "{threads} threads, step {number}");
                quiet += 1;
            }
        }
        assert!(quiet > 0 || threads > 256, "each step had something to say");
        let taken = BYTES.get() - before;
        assert!(taken < 10 << 20, "{taken} bytes for {threads} threads");
    }
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    std::hint::black_box(Box::new(7));
    assert!(ALLOCATIONS.get() > before);
}
