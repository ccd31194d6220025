//! The generator's loop allocates nothing, whatever the server does.

#[expect(dead_code, reason = "only one of its behaviours is not needed here")]
mod fake_memcached;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use fake_memcached::{Behaviour, start};
use quell_bench::load::{Generator, LoadSpec, Monitor, Target};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: every call goes on to the system's allocator unchanged; the counter itself needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn the_counter_counts() {
    assert!(allocations_of(|| drop(std::hint::black_box(vec![1u8; 100]))) > 0);
}

#[test]
fn driving_a_schedule_allocates_nothing() {
    let stall = Duration::from_millis(200);
    for (behaviour, value_bytes) in [
        (Behaviour::Delay(Duration::ZERO), 100),
        (Behaviour::Refuse, 100),
        (Behaviour::HangUp(100), 100),
        // The socket fills up.
        (Behaviour::Stall(50, stall), 200_000),
    ] {
        let spec = LoadSpec {
            target: Target::Tcp(start(behaviour)),
            rate: 1_000.0,
            duration_ns: 500_000_000,
            warmup_ns: 100_000_000,
            connections: 2,
            set_ratio: 0.5,
            value_bytes,
            preload: false,
            ..LoadSpec::default()
        };
        let mut generator = Generator::prepare(&spec).unwrap();
        let monitor = Monitor::default();
        let allocations = allocations_of(|| generator.drive(&monitor).unwrap());
        let (_, record) = generator.finish();
        assert!(record.answered > 100);
        assert_eq!(allocations, 0);
    }
}
