//! What attribution costs: `cargo run --release -p quell-gap --example attribution_cost -- WORKLOADS THREADS BUSY`.
//!
//! Starts WORKLOADS × THREADS threads of its own that sleep, and BUSY of them (spread over the workloads) that wake up 1,000 times a second.
//! Prints the time to load the tracing program, and the cost of bursts of one second each.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quell_gap::Machine;
use quell_gap::attribution::{Crew, Probe};
use quell_model::Nanos;
use quell_thread::clock::cpu_time;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let [workloads, threads, busy] = numbers[..] else { return Err("WORKLOADS THREADS BUSY".into()) };
    let (stop, tids) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let pid = std::process::id().cast_signed();
    std::thread::scope(|scope| -> Result<(), Box<dyn std::error::Error>> {
        for number in 0..workloads * threads {
            let (stop, tids) = (&stop, &tids);
            std::thread::Builder::new().stack_size(64 * 1024).spawn_scoped(scope, move || {
                tids.lock().unwrap().push(rustix::thread::gettid().as_raw_nonzero().get());
                let pause = if number < busy { Duration::from_millis(1) } else { Duration::from_secs(1) };
                while !stop.load(Ordering::Acquire) {
                    std::thread::sleep(pause);
                }
            })?;
        }
        while tids.lock().unwrap().len() < workloads * threads {
            std::thread::sleep(Duration::from_millis(10));
        }
        let of = |(at, tid): (usize, &i32)| (*tid, pid, (at % workloads) as u16);
        let crew = Crew {
            names: (0..workloads).map(|number| format!("w{number}")).collect(),
            threads: tids.lock().unwrap().iter().enumerate().map(of).collect(),
        };
        let (begin, cpu) = (Instant::now(), cpu_time());
        let mut probe = Probe::open(&Machine::here()?)?;
        println!("loading: {:?}, of CPU time {}", begin.elapsed(), cpu_time() - cpu);
        for _ in 0..5 {
            let traced = probe.burst(&crew, Nanos::from_secs(1), Nanos::MAX, &|| true)?;
            let (cost, kernel) = (traced.cost, traced.in_kernel);
            println!(
                "a burst of {}: {} events, {cost} of CPU time, {kernel} of it in the kernel",
                traced.length, traced.events
            );
        }
        stop.store(true, Ordering::Release);
        Ok(())
    })
}
