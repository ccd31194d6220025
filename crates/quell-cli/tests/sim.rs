//! `quell sim` as a command.

use std::process::{Command, Output};

fn quell_sim(arguments: &[&str], threads: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quell"))
        .arg("sim")
        .args(arguments)
        .env("RAYON_NUM_THREADS", threads)
        .output()
        .unwrap()
}

const SHORT: [&str; 7] =
    ["memcached-2cpus", "--set", "duration=200ms", "--set", "repetitions=2", "--sweep", "kernel.preemption=lazy,full"];

#[test]
fn the_bytes_do_not_depend_on_the_threads_that_compute_them() {
    let with = |threads, arguments: &[&str]| {
        let output = quell_sim(&[&SHORT[..], arguments].concat(), threads);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    for arguments in [&["--json", "--series"][..], &["--csv"], &[]] {
        assert_eq!(with("1", arguments), with("3", arguments));
    }
}

#[test]
fn files_are_written_beside_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (json, csv, html) = (path("a.json"), path("a.csv"), path("a.html"));
    let (to_json, to_csv) = (format!("--json={json}"), format!("--csv={csv}"));
    let output = quell_sim(&[&SHORT[..], &[&to_json, &to_csv, "--html", &html]].concat(), "2");
    assert!(String::from_utf8(output.stdout).unwrap().contains("decision time"));
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(&json).lines().count(), 4);
    // Only --series has the course of time in the JSON.
    assert!(!read(&json).contains("\"series\""));
    assert!(read(&csv).starts_with("\"kernel.preemption\",policy,"));
    assert!(read(&html).contains("Latency distribution of memcached"));
    // Nobody looks at standard error: no bar there.
    assert!(!String::from_utf8(output.stderr).unwrap().contains("simulated,"));
}

#[test]
fn what_cannot_be_done_says_what_can() {
    let refused = |arguments: &[&str]| {
        let output = quell_sim(arguments, "1");
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let unknown = refused(&["memcache"]);
    assert!(unknown.contains("memcache ") && unknown.contains("memcached-2cpus"), "{unknown}");
    assert!(refused(&["colocation", "--sweep", "seed="]).contains("KEY=VALUE"));
    assert!(refused(&["colocation", "--json", "--csv"]).contains("--csv=FILE"));
    assert!(refused(&["colocation", "--series"]).contains("--json"));
}
