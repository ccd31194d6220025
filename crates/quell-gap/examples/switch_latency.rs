//! What a switch takes while attribution traces: `cargo run --release -p quell-gap --example switch_latency`.
//!
//! Two threads on one CPU wake each other up by pipes. CPU time of both per round trip (two switches, two wake-ups), alternately
//! without tracing, within a burst, and with every event reported; the differences of ten turns with their interval of 95 %.

use std::error::Error;
use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quell_gap::Machine;
use quell_gap::attribution::{Crew, Probe};
use quell_model::Nanos;
use quell_thread::clock::{cpu_time, now};
use quell_trace::{Collector, Member, Options};

const TURN: Nanos = Nanos::from_millis(500);
const TURNS: usize = 10;
/// Half of an interval of 95 %, in standard errors of ten values (Student's t, 9 degrees of freedom).
const WIDE: f64 = 2.262;

#[derive(Default)]
struct Counts {
    rounds: AtomicU64,
    /// CPU time of each thread, ns.
    used: [AtomicU64; 2],
}

impl Counts {
    fn read(&self) -> (u64, u64) {
        let used = self.used.iter().map(|used| used.load(Ordering::Acquire)).sum();
        (self.rounds.load(Ordering::Acquire), used)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let machine = Machine::here()?;
    let cpu = machine.cpus.iter().last().ok_or("no CPU")?;
    let (counts, stop, tids) = (Counts::default(), AtomicBool::new(false), Mutex::new(Vec::new()));
    let ((mut from_one, mut to_other), (mut from_other, mut to_one)) = (std::io::pipe()?, std::io::pipe()?);
    let begin = |tids: &Mutex<Vec<i32>>| {
        let mut on = rustix::thread::CpuSet::new();
        on.set(cpu.index());
        rustix::thread::sched_setaffinity(None, &on)?;
        tids.lock().map_err(|_| std::io::ErrorKind::Other)?.push(rustix::thread::gettid().as_raw_nonzero().get());
        Ok::<_, std::io::Error>(())
    };
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let (counts, stop, tids) = (&counts, &stop, &tids);
        scope.spawn(move || -> std::io::Result<()> {
            begin(tids)?;
            while !stop.load(Ordering::Acquire) {
                to_other.write_all(&[1])?;
                from_other.read_exact(&mut [0])?;
                counts.rounds.fetch_add(1, Ordering::AcqRel);
                counts.used[0].store(cpu_time().0, Ordering::Release);
            }
            Ok(())
        });
        scope.spawn(move || -> std::io::Result<()> {
            begin(tids)?;
            while from_one.read(&mut [0])? == 1 {
                counts.used[1].store(cpu_time().0, Ordering::Release);
                to_one.write_all(&[1])?;
            }
            Ok(())
        });
        let result = measure(&machine, counts, tids);
        stop.store(true, Ordering::Release);
        result
    })
}

fn measure(machine: &Machine, counts: &Counts, tids: &Mutex<Vec<i32>>) -> Result<(), Box<dyn Error>> {
    while counts.rounds.load(Ordering::Acquire) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let pid = std::process::id().cast_signed();
    let tids = tids.lock().map_err(|_| "a thread ended")?.clone();
    let threads = tids.iter().zip(0..).map(|(tid, slot)| (*tid, pid, slot)).collect();
    let crew = Crew { names: vec!["one".to_owned(), "other".to_owned()], threads };
    let mut probe = Probe::open(machine)?;
    let per_round = |during: &mut dyn FnMut() -> Result<(), Box<dyn Error>>| -> Result<f64, Box<dyn Error>> {
        let before = counts.read();
        during()?;
        let after = counts.read();
        Ok((after.1 - before.1) as f64 / (after.0 - before.0) as f64)
    };
    let (mut plain, mut gained) = (Vec::new(), [Vec::new(), Vec::new()]);
    for _ in 0..TURNS {
        let without = per_round(&mut || {
            std::thread::sleep(TURN.into());
            Ok(())
        })?;
        let burst = per_round(&mut || {
            probe.burst(&crew, TURN, Nanos::MAX, &|| true)?;
            Ok(())
        })?;
        let mut collector = Collector::open(Options { events: true, ..Options::default() })?;
        for (&tid, slot) in tids.iter().zip(0..) {
            collector.watch(Member { tid, slot })?;
        }
        let events = per_round(&mut || {
            let (end, mut events) = (now() + TURN, Vec::new());
            while now() < end {
                std::thread::sleep(Duration::from_millis(20));
                collector.drain(&mut events)?;
                events.clear();
            }
            Ok(())
        })?;
        plain.push(without);
        gained[0].push(burst - without);
        gained[1].push(events - without);
    }
    for (what, values) in
        [("without", &plain), ("more within a burst", &gained[0]), ("more with every event", &gained[1])]
    {
        let mean = values.iter().sum::<f64>() / TURNS as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (TURNS as f64 - 1.0);
        let half = WIDE * (variance / TURNS as f64).sqrt();
        println!("{what}: {mean:.0} ns a round trip ({:.0} to {:.0})", mean - half, mean + half);
    }
    Ok(())
}
