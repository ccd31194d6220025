//! `quell-lab run` as a command.

use std::process::{Command, Output};

fn quell_sim(arguments: &[&str], threads: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quell-lab"))
        .arg("run")
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
    // Standard error is no terminal: no bar there.
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

/// A target that asks for more CPUs than there are.
const OVERCOMMITTED: [&str; 7] = [
    "rkube-figure3",
    "--against",
    "none,rkube",
    "--set",
    "workload.T.cpus=9",
    "--set=workload.T.reservation=strict",
    "--set=duration=100ms",
];

#[test]
fn what_a_policy_refuses_is_said_in_the_table_and_in_the_json() {
    let output = quell_sim(&OVERCOMMITTED, "2");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("rkube refuses: "), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let output = quell_sim(&[&OVERCOMMITTED[..], &["--json"]].concat(), "2");
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["notes"], serde_json::json!([]));
    let note = &lines[1]["notes"][0];
    assert_eq!(note["kind"], "refused", "{}", lines[1]);
    for line in &lines {
        assert_eq!(line["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!((&line["scenario"], &line["seed"]), (&"rkube-figure3".into(), &1.into()));
        assert_eq!(line["set"][0], "workload.T.cpus=9");
        assert_eq!(line["units"]["times"], "ns");
        assert!(line["parameters"].is_object());
    }
}

#[test]
fn a_scenario_is_printed_and_not_run() {
    let printed = quell_sim(&["--print", "colocation"], "1");
    let text = String::from_utf8(printed.stdout).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, &text).unwrap();
    let again = quell_sim(&[file.to_str().unwrap(), "--print"], "1");
    assert_eq!(String::from_utf8(again.stdout).unwrap(), text);
    assert!(text.contains("[[workload]]"));
}

#[test]
fn files_that_cannot_be_written_are_refused_before_anything_runs() {
    // It would take minutes.
    let output = quell_sim(&["colocation", "--set", "duration=1h", "--html", "/nowhere/page.html"], "1");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && errors.contains("/nowhere/page.html"), "{errors}");
}

#[test]
fn stacks_are_compared_recorded_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("stacked.record");
    let file = record.to_str().unwrap();
    let short = ["stacked", "--set", "duration=200ms", "--set", "warm_up=20ms"];
    let all = quell_sim(&[&short[..], &["--json"]].concat(), "2");
    let lines = String::from_utf8(all.stdout).unwrap();
    let stacks: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["policy"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(stacks, ["none", "guard", "rkube+caladan", "caladan+guard", "caladan"]);

    let output = quell_sim(&[&short[..], &["--against", "rkube+caladan", "--record", file]].concat(), "2");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let replayed = Command::new(env!("CARGO_BIN_EXE_quell-lab")).args(["replay", file]).output().unwrap();
    let said = String::from_utf8(replayed.stdout).unwrap();
    assert!(replayed.status.success(), "{said}{}", String::from_utf8_lossy(&replayed.stderr));
    assert!(said.contains("rkube + guard + caladan") && said.contains("every plan is the recorded one"), "{said}");

    let several = quell_sim(&[&short[..], &["--record", file]].concat(), "1");
    let said = String::from_utf8(several.stderr).unwrap();
    assert!(!several.status.success() && said.contains("--record is of one run"), "{said}");
}
