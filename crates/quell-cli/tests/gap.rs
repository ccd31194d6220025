//! `quell gap` and `quell-lab paper` as a user meets them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn quell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quell")).args(arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A process of ours that spins until the test ends.
struct Spinning(Child);

impl Spinning {
    /// It spins when this returns: a shell that is still read from a slow disk does not.
    fn start() -> Spinning {
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", "echo; while :; do :; done"]).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        Spinning(child)
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_spinning_process_is_due_its_request_and_the_parts_add_up() {
    let spinning = Spinning::start();
    let workload = format!("web=pid:{},cpus=0.5", spinning.0.id());
    for method in ["auto", "estimate"] {
        // The estimate samples, and a busy machine lets it sample seldom; in a container `auto` is an estimate too.
        let report = json(&quell(&["gap", "--for", "2s", "--workload", &workload, "--method", method, "--json"]));
        let web = &report["workloads"][0];
        let account = if web["exact"].is_null() { &web["estimate"]["account"] } else { &web["exact"] };
        let part = |name: &str| account[name].as_u64().unwrap();
        assert_eq!(part("kept") + part("frs") + part("pct") + part("rest"), part("due"), "{account}");
        // It always wants the CPU: due is what it requested, but for what the estimate misses at both ends.
        let due = part("due") as f64 / part("requested") as f64;
        assert!((0.8..=1.0).contains(&due), "{method}: due {due} of the request: {account}");
        assert!(part("got") > 0);
        assert_eq!(report["inexact"].is_null(), !web["exact"].is_null());
        assert!(report["version"].is_string() && report["units"]["cpus"] == "CPUs", "{report}");
    }
    let text = quell(&["gap", "--for", "200ms", "--workload", &workload, "--method", "estimate"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("web") && text.contains("FRS") && text.contains('±'), "{text}");
}

#[test]
fn no_workload_gets_more_cpus_than_there_are() {
    let _spinning = [Spinning::start(), Spinning::start()];
    for place in ["cgroup:/", "pid:1"] {
        let workload = format!("x={place},cpus=2");
        let output = quell(&["gap", "--for", "2s", "--workload", &workload, "--json"]);
        if String::from_utf8_lossy(&output.stderr).contains("nothing matches") {
            // No cgroups are mounted here.
            continue;
        }
        let report = json(&output);
        let x = &report["workloads"][0];
        let account = if x["exact"].is_null() { &x["estimate"]["account"] } else { &x["exact"] };
        let there_are = report["cpus"].as_u64().unwrap() * report["window"].as_u64().unwrap();
        let got = account["got"].as_u64().unwrap();
        assert!(got <= there_are || !x["caveats"].as_array().unwrap().is_empty(), "{place}: {report}");
        assert!(x["exact"].is_null() || got <= there_are, "{place}: {report}");
    }
}

#[test]
fn who_took_the_time_is_named() {
    // Each is bound to the first CPU; the target waits while the other one runs.
    let (target, other) = (Spinning::start(), Spinning::start());
    for process in [&target, &other] {
        let mut set = rustix::thread::CpuSet::new();
        set.set(0);
        let pid = rustix::process::Pid::from_raw(process.0.id() as i32);
        if rustix::thread::sched_setaffinity(pid, &set).is_err() {
            eprintln!("not tested here: CPU 0 is not ours");
            return;
        }
    }
    let workload = format!("web=pid:{},cpus=1", target.0.id());
    let report = json(&quell(&["gap", "--for", "2s", "--workload", &workload, "--json"]));
    let web = &report["workloads"][0];
    if web["exact"].is_null() {
        eprintln!("not tested here, where nothing can be traced: {}", report["inexact"]);
        return;
    }
    let takers = web["taken_by"].as_array().expect("who took the time");
    let shell = takers.iter().find(|taker| taker["name"] == "sh" || taker["name"] == "dash" || taker["name"] == "bash");
    // It has the same weight: whatever else runs on that CPU, the two share the rest.
    let got = web["exact"]["got"].as_u64().unwrap();
    assert!(shell.is_some_and(|taker| taker["time"].as_u64() > Some(got / 4)), "{web}");
    let sum: u64 = takers.iter().map(|taker| taker["time"].as_u64().unwrap()).sum();
    let shared = web["exact"]["shared"].as_u64().unwrap();
    assert!(sum.abs_diff(shared) < 1_000_000, "{sum} of {shared}: {web}");
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn ctrl_c_reports_the_time_so_far() {
    let spinning = Spinning::start();
    let workload = format!("web=pid:{},cpus=1", spinning.0.id());
    // Before the first period is over there is nothing to report, and the status says so.
    for seconds in [1, 2, 4, 8, 16] {
        let begin = std::time::Instant::now();
        let gap = start(&["gap", "--for", "300s", "--workload", &workload, "--json"]);
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        interrupt(&gap);
        let output = gap.wait_with_output().unwrap();
        if output.status.code() == Some(130) {
            continue;
        }
        let report = json(&output);
        assert_eq!(report["interrupted"], true, "{report}");
        let window = report["window"].as_u64().unwrap();
        assert!(u128::from(window) < begin.elapsed().as_nanos(), "{report}");
        return;
    }
    panic!("nothing was reported within 16 seconds");
}

#[test]
fn watch_reports_one_time_after_the_other_until_ctrl_c() {
    let spinning = Spinning::start();
    let workload = format!("web=pid:{},cpus=1", spinning.0.id());
    let mut gap = start(&["gap", "--for", "300ms", "--watch", "--workload", &workload, "--json"]);
    let mut lines = BufReader::new(gap.stdout.take().unwrap()).lines();
    for line in lines.by_ref().take(3) {
        let report: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(report["window"], 300_000_000, "{report}");
    }
    interrupt(&gap);
    assert!(gap.wait().unwrap().success());
    drop(lines);
}

#[test]
fn mistakes_are_answered_with_the_fix() {
    for (arguments, fix) in [
        (vec!["gap", "--workload", "web=pid:4194305,cpus=1"], "start it first"),
        (vec!["gap", "--workload", "web=pid:1"], "add cpus=N"),
        (vec!["gap", "--for", "10ms", "--workload", "web=pid:1,cpus=1"], "at least one period"),
    ] {
        let output = quell(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains(fix), "{arguments:?}: {errors}");
    }
}
