//! What a simulation holds in memory does not grow with simulated time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use quell_model::{Nanos, Policy, Stack};
use quell_policy::AnyPolicy;
use quell_sim::SimHost;
use quell_sim::host::drive;
use quell_sim::scenario::{SHIPPED, Scenario};

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

struct Counting;

// SAFETY: every call is the system allocator's, with the same arguments; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise is the system allocator's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn memory_is_flat_in_simulated_time() {
    let shipped = SHIPPED.iter().find(|shipped| shipped.name == "colocation").unwrap();
    let scenario = Scenario::parse(Path::new("colocation"), shipped.text, &[]).unwrap();
    for name in ["none", "caladan"] {
        let mut policy = AnyPolicy::named(name).unwrap();
        let grants = policy.describe().grants;
        let machine = scenario.machine.machine().unwrap();
        let workloads = &scenario.workloads;
        let mut host = SimHost::new(machine, scenario.kernel.clone(), workloads, 1, grants).unwrap();
        let mut stack = Stack::of_one(&mut policy, host.view());
        let mut held_after = |span: Nanos| {
            drive(&mut host, &mut stack, span, |_, _| {});
            HELD.get()
        };
        let (early, late) = (held_after(Nanos::from_secs(1)), held_after(Nanos::from_secs(11)));
        // Queues and heaps may have to grow for a rare moment; ten times the events leave nothing behind.
        assert!(late - early < 16_384 && early > 10_000, "{name}: {early} bytes after 1 s, {late} after 11 s");
    }
}
