//! The recorder.

use std::fmt::Write;
use std::net::TcpListener;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp};

use super::NANOS_PER_LINE;
use crate::source::{Probe, Source};

const LENGTH: Duration = Duration::from_secs(150);
const PER_SECOND: f64 = 100.0;

struct Memcached(Child);

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Records anew: `cargo test -p quell-effect --release --lib -- --ignored record_latencies`.
#[test]
#[ignore = "two and a half minutes; writes latencies.txt: memcached beside threads that spin and sleep for a second or two each"]
fn record_latencies() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let arguments = ["-u", "root", "-t", "1", "-U", "0", "-l", "127.0.0.1", "-p", &port];
    let _memcached = Memcached(Command::new("memcached").args(arguments).spawn().unwrap());
    let url = format!("memcached://127.0.0.1:{port}");
    let begin = Instant::now();
    let mut probe = loop {
        match Probe::start(&url, PER_SECOND) {
            Ok(probe) => break probe,
            Err(error) => assert!(begin.elapsed() < Duration::from_secs(20), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let stop = AtomicBool::new(false);
    let threads = 3 * std::thread::available_parallelism().map_or(2, usize::from) as u64;
    let mut text = String::new();
    std::thread::scope(|scope| {
        for seed in 0..threads {
            let stop = &stop;
            scope.spawn(move || {
                let (mut random, time) = (ChaCha8Rng::seed_from_u64(seed), Exp::new(1.0 / 1.5).unwrap());
                while !stop.load(Ordering::Relaxed) {
                    let end = Instant::now() + Duration::from_secs_f64(time.sample(&mut random));
                    while Instant::now() < end && !stop.load(Ordering::Relaxed) {}
                    std::thread::sleep(Duration::from_secs_f64(time.sample(&mut random)));
                }
            });
        }
        let begin = Instant::now();
        let mut number = 0;
        while begin.elapsed() < LENGTH {
            number += 1;
            std::thread::sleep(
                (begin + Duration::from_nanos(number * NANOS_PER_LINE)).saturating_duration_since(Instant::now()),
            );
            let Some(slice) = probe.look().unwrap() else { continue };
            let values = slice.cells.iter().flat_map(|&(ns, count)| std::iter::repeat_n(ns / 1_000, count as usize));
            let line: Vec<String> = values.map(|micros| micros.to_string()).collect();
            writeln!(text, "{}", line.join(" ")).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/prove/recorded/latencies.txt"), text).unwrap();
}
