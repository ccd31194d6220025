//! The generator against a real memcached (`scripts/setup` installs it).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use quell_bench::load::{self, Arrivals, LoadSpec, Target};

struct Memcached(Child);

impl Memcached {
    fn start(arguments: &[&str]) -> Self {
        let child = Command::new("memcached")
            .args(["-u", "root", "-t", "1", "-U", "0"])
            .args(arguments)
            .spawn()
            .expect("memcached is not installed: run scripts/setup");
        Self(child)
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("memcached ends");
    }
}

/// Items that it holds, as it says.
fn items(path: &Path) -> u64 {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(b"stats\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let stats: Vec<String> = lines.take_while(|line| line != "END").collect();
    stats.iter().find_map(|line| line.strip_prefix("STAT curr_items ")).unwrap().trim().parse().unwrap()
}

#[test]
fn a_real_memcached_answers_every_request() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memcached.sock");
    let _server = Memcached::start(&["-m", "64", "-s", path.to_str().unwrap()]);
    let begun = Instant::now();
    while UnixStream::connect(&path).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10), "memcached does not answer");
        thread::sleep(Duration::from_millis(10));
    }
    for arrivals in
        [Arrivals::Poisson, Arrivals::Fixed, Arrivals::Bursty { factor: 2.0, fraction: 0.5, burst_ns: 10_000_000 }]
    {
        let spec = LoadSpec {
            target: Target::Unix(path.clone()),
            rate: 2_000.0,
            arrivals,
            duration_ns: 500_000_000,
            warmup_ns: 100_000_000,
            set_ratio: 0.3,
            keys: 1_000,
            value_bytes: 5_000,
            ..LoadSpec::default()
        };
        let report = load::run(&spec).unwrap();
        assert!(report.counts.due > 500);
        assert_eq!(report.counts.answered, report.counts.due, "{arrivals:?}");
        assert_eq!(report.counts.misses, 0, "all keys were stored beforehand");
        assert!(report.counts.hits > report.counts.answered / 2);
        assert!(report.stolen.is_some() && report.server.starts_with("memcached "), "{}", report.server);
        assert_eq!((report.keys_deleted, items(&path)), (Some(1_000), 0), "nothing of it is left");
    }
    // What does not fit is refused by the server, and counted.
    let large = LoadSpec {
        target: Target::Unix(path),
        rate: 100.0,
        duration_ns: 300_000_000,
        warmup_ns: 0,
        set_ratio: 1.0,
        value_bytes: 1 << 20,
        preload: false,
        ..LoadSpec::default()
    };
    let report = load::run(&large).unwrap();
    assert_eq!(report.counts.refused, report.counts.due);
}
