//! The generator against servers of known behaviour. Times are asserted with wide margins only.

mod fake_memcached;

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use fake_memcached::{Behaviour, start};
use quell_bench::load::{self, Arrivals, LoadSpec, Monitor, Target};

const MS: u64 = 1_000_000;

fn spec(behaviour: Behaviour) -> LoadSpec {
    LoadSpec {
        target: Target::Tcp(start(behaviour)),
        rate: 1_000.0,
        duration_ns: 1_500 * MS,
        warmup_ns: 200 * MS,
        connections: 4,
        keys: 50,
        preload: false,
        ..LoadSpec::default()
    }
}

#[test]
fn a_known_delay_is_measured() {
    let slow = LoadSpec { rate: 40.0, ..spec(Behaviour::Delay(Duration::from_millis(30))) };
    let report = load::run(&slow).unwrap();
    let p50 = report.latency.at(0.5);
    assert!((30 * MS..150 * MS).contains(&p50), "{p50}");
    assert_eq!(report.counts.answered, report.counts.due);
    assert!(report.counts.hits > 0 && report.counts.misses == 0);
    assert!(report.counts.hits < report.counts.answered, "there are sets, too");

    let fast = load::run(&spec(Behaviour::Delay(Duration::ZERO))).unwrap();
    assert!(fast.latency.at(0.5) * 5 < p50, "{} against {p50}", fast.latency.at(0.5));
    assert!(!fast.saturated);
    assert!((fast.offered_per_s / 1_000.0 - 1.0).abs() < 0.15, "{}", fast.offered_per_s);
    let timed: u64 = fast.timeline.iter().map(|window| window.answered).sum();
    assert_eq!(timed, fast.counts.answered);
}

/// A closed-loop generator would see one slow request a connection; an open one sees all that came due meanwhile.
#[test]
fn a_stall_is_seen_from_the_intended_send_time() {
    let stalling = LoadSpec { connections: 1, ..spec(Behaviour::Stall(700, Duration::from_millis(300))) };
    let report = load::run(&stalling).unwrap();
    let slow: u64 = report.latency.histogram.cells().filter(|(ns, _)| *ns > 50 * MS).map(|(_, count)| count).sum();
    assert!(slow > 100, "{slow} requests saw the stall, of about 250 that came due in it");
    assert!(report.latency.max_ns > 250 * MS);
    assert!(report.latency.at(0.5) < 50 * MS);
    assert!(report.lateness.at(0.99) * 3 < report.latency.at(0.99), "the stall is not the generator's own");
}

#[test]
fn a_server_that_cannot_keep_up_is_said_plainly() {
    let swamped = LoadSpec { connections: 1, drain_ns: 100 * MS, ..spec(Behaviour::Delay(Duration::from_millis(4))) };
    let report = load::run(&swamped).unwrap();
    assert!(report.saturated);
    assert!(report.served_per_s < 0.5 * report.offered_per_s);
    assert!(report.counts.unanswered > 0);
    assert!(report.caveats()[0].contains("did not keep up"), "{:?}", report.caveats());
}

/// The socket fills up while the server reads nothing: the schedule goes on, and all is sent later.
#[test]
fn a_full_socket_delays_but_loses_nothing() {
    let filling = LoadSpec {
        arrivals: Arrivals::Fixed,
        rate: 400.0,
        connections: 1,
        set_ratio: 1.0,
        value_bytes: 200_000,
        ..spec(Behaviour::Stall(100, Duration::from_millis(400)))
    };
    let report = load::run(&filling).unwrap();
    assert_eq!(report.counts.answered, report.counts.due);
    assert_eq!(report.counts.due, 600);
    assert!(report.latency.max_ns > 200 * MS);
    assert!(report.lateness.at(0.9) * 4 < report.latency.max_ns);
}

#[test]
fn errors_and_closed_connections_are_counted() {
    let refused = load::run(&spec(Behaviour::Refuse)).unwrap();
    assert_eq!(refused.counts.refused, refused.counts.due);
    assert_eq!(refused.counts.answered, 0);

    let hung_up = load::run(&spec(Behaviour::HangUp(100))).unwrap();
    assert_eq!(hung_up.closed_connections, 4);
    assert!(hung_up.measured_ns < 1_000 * MS, "nothing is left to do without a connection");
    assert!(hung_up.caveats().iter().any(|text| text.contains("4 of 4 connections")));

    let foreign = load::run(&spec(Behaviour::Http)).unwrap();
    assert_eq!(foreign.closed_connections, 4);
    assert_eq!(foreign.counts.answered, 0);
}

#[test]
fn a_server_that_refuses_the_keys_is_named() {
    for behaviour in [Behaviour::Refuse, Behaviour::Http, Behaviour::HangUp(3)] {
        let preloading = LoadSpec { preload: true, ..spec(behaviour) };
        let text = load::run(&preloading).unwrap_err().to_string();
        assert!(text.contains(&preloading.target.to_string()) && text.contains("memcached"), "{text}");
    }
}

#[test]
fn no_server_is_an_error_with_address_and_fix() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for target in [unused, "unix:/nowhere/memcached.sock".into()] {
        let refused = LoadSpec { target: target.parse().unwrap(), ..LoadSpec::default() };
        let text = load::run(&refused).unwrap_err().to_string();
        assert!(text.contains(&target) && text.contains("start the server"), "{text}");
    }
}

#[test]
fn a_unix_socket_works_and_keys_are_stored_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memcached.sock");
    fake_memcached::start_on(&path, Behaviour::Delay(Duration::ZERO));
    let unix = LoadSpec {
        target: Target::Unix(path),
        preload: true,
        keys: 1_000,
        set_ratio: 1.0,
        value_bytes: 1,
        duration_ns: 300 * MS,
        ..spec(Behaviour::Refuse)
    };
    let report = load::run(&unix).unwrap();
    assert!(report.counts.due > 0);
    assert_eq!((report.counts.answered, report.keys_deleted), (report.counts.due, Some(1_000)));
}

#[test]
fn a_run_can_be_watched_and_ended() {
    let long = LoadSpec { duration_ns: 60_000 * MS, ..spec(Behaviour::Delay(Duration::ZERO)) };
    let monitor = Monitor::default();
    let report = thread::scope(|scope| {
        let run = scope.spawn(|| load::run_watched(&long, &monitor));
        while monitor.answered.load(Relaxed) < 500 {
            assert!(!run.is_finished());
            thread::sleep(Duration::from_millis(5));
        }
        monitor.stop.store(true, Relaxed);
        run.join().unwrap().unwrap()
    });
    assert!(monitor.planned.load(Relaxed) > 50_000);
    assert!(report.measured_ns < 30_000 * MS);
    assert!(report.counts.due < 30_000);
}
