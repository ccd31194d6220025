//! `quell load` and `quell antagonist` as a user calls them.

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use quell_bench::antagonist::{AntagonistReport, Progress};

fn quell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quell")).args(arguments).output().expect("quell starts")
}

fn failure(arguments: &[&str]) -> String {
    let output = quell(arguments);
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).expect("messages are UTF-8")
}

#[test]
fn bad_input_is_refused_with_the_fix() {
    for (arguments, words) in [
        (&["load", "--target", "somewhere"][..], ["somewhere", "HOST:PORT"]),
        (&["load", "--target", "unix:/nowhere.sock"], ["/nowhere.sock", "start the server"]),
        (&["load", "--rate", "-5"], ["--rate", "above zero"]),
        (&["load", "--duration", "ten"], ["ten", "--duration"]),
        (&["load", "--arrivals", "bursty", "--burst-share", "0.9"], ["arrivals", "product at most 1"]),
        (&["antagonist", "llc", "--working-set", "5"], ["working set: 5 bytes", "at least 1 MiB"]),
        (&["antagonist", "stream", "--working-set", "4095GiB"], ["working set: 4.00 TiB", "available"]),
        (&["antagonist", "cpu", "--threads", "0"], ["threads: 0", "1 to 65536"]),
        (&["antagonist", "cpu", "--duty", "3"], ["duty: 3", "between 0 and 1"]),
        (&["antagonist", "disk"], ["disk", "collector"]),
    ] {
        let text = failure(arguments);
        assert!(words.iter().all(|word| text.contains(word)), "{arguments:?}: {text}");
    }
}

#[test]
fn an_antagonist_can_be_watched_and_reports_when_it_is_terminated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("progress");
    let child = Command::new(env!("CARGO_BIN_EXE_quell"))
        .args(["antagonist", "cpu", "--threads", "2", "--duration", "60s", "--json", "--progress"])
        .arg(&path)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let seen = loop {
        assert!(begun.elapsed() < Duration::from_secs(30), "no block was done");
        match Progress::open(&path).unwrap() {
            Some(progress) if progress.blocks() > 100 => break progress.blocks(),
            _ => thread::sleep(Duration::from_millis(10)),
        }
    };
    let status = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(status.success());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let report: AntagonistReport = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report.blocks >= seen);
    assert!(report.elapsed_ns < 50_000_000_000);
    assert_eq!(report.thread_blocks.len(), 2);
}

#[test]
fn a_report_for_people_is_a_table() {
    let output = quell(&["antagonist", "cpu", "--threads", "1", "--duration", "200ms"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("blocks/s") && text.lines().count() == 3, "{text}");
}
