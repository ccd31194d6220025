//! What watches the loop allocates nothing on the loop's thread once its buffers are warm.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use quell_agent::record::Recorder;
use quell_agent::stack::{Layer, Stack, Witness};
use quell_agent::watch::{SIGNALS, watch};
use quell_model::{CpuCount, CpuSet, Host, Nanos, Topology, Wake};
use quell_policy::AnyPolicy;
use quell_sim::{KernelConfig, SimHost, WorkloadSpec};

/// Counts the allocations of a thread while it is asked to.
struct Counting;

thread_local! {
    static COUNT: Cell<Option<u64>> = const { Cell::new(None) };
}

fn count_one() {
    // A thread that ends has no counter any more.
    let _ = COUNT.try_with(|count| count.set(count.get().map(|n| n + 1)));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches a thread-local cell only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one();
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(run: impl FnOnce()) -> u64 {
    COUNT.with(|count| count.set(Some(0)));
    run();
    COUNT.with(|count| count.take()).unwrap_or(0)
}

/// By then each of the record's 64 buffers has had a turn with everything that people want to see, one in 51.
const WARM: u64 = 3300;

#[test]
fn witnesses_allocate_nothing_in_steady_state() {
    let lc = |number| WorkloadSpec::lc(format!("lc{number}"), CpuCount(100)).using(2, 0.15);
    let pair = |number| [lc(number), WorkloadSpec::be(format!("be{number}")).busy(1)];
    let workloads: Vec<WorkloadSpec> = (0..20).flat_map(pair).collect();
    let topology = Topology::synthetic(1, 1, 8, 2);
    let mut host = SimHost::new(topology, KernelConfig::default(), &workloads, 1, false).unwrap();
    let layers = vec![Layer::new(AnyPolicy::named("guard").unwrap(), None)];
    let mut stack = Stack::new(layers, host.view(), CpuSet::first(16)).unwrap();
    stack.also_measure(SIGNALS, quell_linux::cpu_time);
    let (mut watch, mut watched) = watch(stack.view(), stack.layers());
    let mut recorder =
        Recorder::into(Box::new(std::io::sink()), "sink".as_ref(), stack.view(), stack.layers()).unwrap();
    let progress = recorder.progress();
    let (mut counted, mut noisy) = (0, 0);
    for turn in 0..3500u64 {
        let wake = stack.turn(&mut host).unwrap();
        let quiet = stack.layers()[0].plan.notes.is_empty();
        let count = allocations(|| {
            watch.turned(stack.view(), stack.layers());
            recorder.turned(stack.view(), stack.layers());
        });
        // Notes are texts.
        if turn >= WARM && quiet {
            counted += count;
            noisy += u64::from(count > 0);
        }
        watched.glance();
        watched.decisions().for_each(drop);
        while progress().turns + progress().lost + 8 < turn {
            std::thread::sleep(Duration::from_millis(1));
        }
        host.wait(wake.sooner(Wake::At(host.now() + Nanos::from_millis(20)))).unwrap();
    }
    assert_eq!(progress().lost, 0);
    assert_eq!((counted, noisy), (0, 0), "allocations, and turns with one");
    assert!(allocations(|| drop(vec![1u8])) == 1, "the counter counts");
}
