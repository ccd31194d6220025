//! After warm-up `sdc-global` allocates nothing in `step`; what it says in words is apart.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use quell_cluster::policy::AnyClusterPolicy;
use quell_cluster_sim::scenario::Scenario;
use quell_cluster_sim::sim::Cluster;
use quell_model::cluster::{ClusterDescription, ClusterDomain, ClusterEvent, ClusterPlan, ClusterView};
use quell_model::{Host, Layer as OfStack, Nanos, Policy, Stack, Wake};
use rustix::time::{ClockId, clock_gettime};

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

/// A policy whose allocations and times are counted once it is warm.
struct Counted {
    policy: AnyClusterPolicy,
    warm: Nanos,
    seen: Seen,
}

/// What was counted.
#[derive(Clone, Copy, Default)]
struct Seen {
    allocations: u64,
    moves: usize,
    steps: u32,
    /// CPU time: other programs run here, too.
    longest: Duration,
    sum: Duration,
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

impl Policy<ClusterDomain> for Counted {
    fn describe(&self) -> &'static ClusterDescription {
        self.policy.describe()
    }

    fn step(&mut self, view: &ClusterView, events: &[ClusterEvent], plan: &mut ClusterPlan) -> Wake {
        let (before, begun) = (ALLOCATIONS.get(), cpu_time());
        let wake = self.policy.step(view, events, plan);
        let (took, here) = (cpu_time() - begun, ALLOCATIONS.get() - before);
        if view.now >= self.warm {
            self.seen.allocations += if plan.notes.is_empty() { here } else { 0 };
            self.seen.moves += plan.moves.len();
            self.seen.steps += 1;
            self.seen.longest = self.seen.longest.max(took);
            self.seen.sum += took;
        }
        wake
    }
}

fn counted(scenario: &Scenario, warm: Nanos, end: Nanos) -> Seen {
    let policy = AnyClusterPolicy::named("sdc-global", 1).unwrap();
    let counted = Counted { policy, warm, seen: Seen::default() };
    let mut cluster = Cluster::new(scenario, 1).unwrap();
    let mut stack = Stack::new(vec![OfStack::new(counted, None)], ClusterView::default(), None).ok().unwrap();
    while !cluster.is_over() && cluster.now() < end {
        let Ok(wake) = stack.turn(&mut cluster);
        let Ok(()) = cluster.wait(wake);
    }
    stack.layers()[0].policy.seen
}

#[test]
fn a_warm_step_allocates_nothing() {
    let scenario = Scenario::shipped("hundred-hosts").unwrap();
    let seen = counted(&scenario, Nanos::from_secs(1200), Nanos::from_secs(3600));
    assert!(seen.steps > 50 && seen.moves > 0, "{} steps, {} moves", seen.steps, seen.moves);
    assert_eq!(seen.allocations, 0, "in {} steps", seen.steps);
}

/// Five thousand hosts: minutes in a build without optimisation.
#[test]
#[ignore = "a measurement: cargo test --release -p quell-cluster-sim --test allocations -- --ignored --show-output"]
fn a_step_over_five_thousand_hosts_is_short() {
    let scenario = Scenario::shipped("five-thousand").unwrap();
    let seen = counted(&scenario, Nanos::from_secs(300), Nanos::from_secs(900));
    println!(
        "{} steps, {} moves, {} allocations, CPU time of a step {:?} on average, {:?} at most",
        seen.steps,
        seen.moves,
        seen.allocations,
        seen.sum / seen.steps,
        seen.longest
    );
    assert_eq!(seen.allocations, 0);
}
