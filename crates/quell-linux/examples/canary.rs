//! How slow memory is felt to be on this machine, while none, one, … of its CPUs stream through memory:
//!
//! ```sh
//! cargo run --release -p quell-linux --example canary
//! ```

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::{Host, Signal, SignalSet, View};

const WANTED: SignalSet = SignalSet::of(&[Signal::MemorySlowdown]);
const MEASURED: Duration = Duration::from_secs(2);

/// More than any cache has, for each thread.
const STREAMED_WORDS: usize = (256 << 20) / size_of::<u64>();

fn main() {
    let mut host = LinuxHost::new(Roots::default(), HostOptions::default()).expect("this machine");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{:?}", host.capabilities().signals[&Signal::MemorySlowdown]);
    println!("{:>9} {:>6} {:>6} {:>6}", "streaming", "p10", "p50", "p90");
    for streaming in 0..cpus {
        let (ends, begins) = (AtomicBool::new(false), Barrier::new(streaming + 1));
        let stream = || {
            let mut words = vec![1u64; STREAMED_WORDS];
            begins.wait();
            while !ends.load(Ordering::Relaxed) {
                words.iter_mut().for_each(|word| *word = word.wrapping_mul(3));
                black_box(&mut words);
            }
        };
        let mut seen = std::thread::scope(|scope| {
            (0..streaming).for_each(|_| _ = scope.spawn(stream));
            begins.wait();
            let seen = slowdowns(&mut host);
            ends.store(true, Ordering::Relaxed);
            seen
        });
        seen.sort_unstable_by(f64::total_cmp);
        let [p10, p50, p90] = [1, 5, 9].map(|tenth| seen[seen.len() * tenth / 10]);
        println!("{streaming:>9} {p10:>6.2} {p50:>6.2} {p90:>6.2}");
    }
}

fn slowdowns(host: &mut LinuxHost) -> Vec<f64> {
    let (begun, mut seen) = (Instant::now(), Vec::new());
    let mut view = View::new(host.topology());
    while begun.elapsed() < MEASURED || seen.is_empty() {
        std::thread::sleep(Duration::from_millis(1));
        host.observe(WANTED, &mut view, &mut Vec::new()).expect("a look");
        seen.extend(view.machine.memory_slowdown.usable());
    }
    seen
}
