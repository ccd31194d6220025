//! A service's own histogram that says what a test wants it to.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Upper ends of the buckets, ms.
const BOUNDS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];

/// Requests so far by bucket, until it is dropped.
pub struct Page {
    pub address: String,
    counts: Arc<[AtomicU64; 10]>,
    _lives: Arc<AtomicBool>,
}

impl Page {
    /// `now` says how many requests there are a second, and how long each takes, ms, by the time since the beginning.
    pub fn start(now: impl Fn(Duration) -> (f64, u64) + Send + 'static) -> Page {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (counts, lives) = (Arc::<[AtomicU64; 10]>::default(), Arc::new(AtomicBool::new(true)));
        let page = Page { address: listener.local_addr().unwrap().to_string(), counts, _lives: lives };
        let (counts, lives) = (Arc::clone(&page.counts), Arc::downgrade(&page._lives));
        std::thread::spawn(move || count(&counts, &lives, now));
        let (counts, lives) = (Arc::clone(&page.counts), Arc::downgrade(&page._lives));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten().take_while(|_| lives.strong_count() > 0) {
                let counts = Arc::clone(&counts);
                std::thread::spawn(move || answer(&stream, &counts));
            }
        });
        page
    }

    /// As `--histogram` takes it.
    pub fn histogram(&self) -> String {
        format!("{}/metrics#latency_seconds", self.address)
    }
}

fn count(counts: &[AtomicU64; 10], lives: &Weak<AtomicBool>, now: impl Fn(Duration) -> (f64, u64)) {
    let begun = Instant::now();
    let (mut last, mut owed) = (begun.elapsed(), 0.0);
    while lives.strong_count() > 0 {
        let at = begun.elapsed();
        let (per_second, ms) = now(at);
        owed += per_second * (at - last).as_secs_f64();
        last = at;
        let bucket = BOUNDS.iter().position(|bound| ms <= *bound).unwrap();
        counts[bucket].fetch_add(owed as u64, Relaxed);
        owed = owed.fract();
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn answer(stream: &TcpStream, counts: &[AtomicU64; 10]) {
    let (mut lines, mut out) = (BufReader::new(stream).lines(), stream);
    while lines.next().is_some_and(|line| line.is_ok()) {
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let (mut body, mut upto) = (String::new(), 0);
        for (bound, count) in BOUNDS.iter().zip(counts) {
            upto += count.load(Relaxed);
            body += &format!("latency_seconds_bucket{{le=\"{}\"}} {upto}\n", *bound as f64 / 1e3);
        }
        body += &format!("latency_seconds_bucket{{le=\"+Inf\"}} {upto}\n");
        if write!(out, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).is_err() {
            return;
        }
    }
}
