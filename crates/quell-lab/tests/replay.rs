//! `quell-lab replay` of a run of a simulated machine.

use std::path::Path;
use std::process::{Command, Output};

use quell_agent::record::Recorder;
use quell_agent::stack::{Layer, Stack, Witness};
use quell_model::{CpuCount, CpuSet, Host, Nanos, Topology, Wake};
use quell_policy::AnyPolicy;
use quell_sim::{KernelConfig, SimHost, WorkloadSpec};

fn quell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quell-lab")).args(arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Half a second of guard on a simulated machine.
fn record(file: &Path) {
    let workloads = [WorkloadSpec::lc("db", CpuCount::whole(1)).using(1, 0.5), WorkloadSpec::be("batch").busy(2)];
    let mut host =
        SimHost::new(Topology::synthetic(1, 1, 4, 1), KernelConfig::default(), &workloads, 1, false).unwrap();
    let layers = vec![Layer::new(AnyPolicy::named("guard").unwrap(), None)];
    let mut stack = Stack::new(layers, host.view(), CpuSet::first(4)).unwrap();
    let mut recorder = Recorder::start(file, stack.view(), stack.layers()).unwrap();
    for _ in 0..25 {
        let wake = stack.turn(&mut host).unwrap();
        recorder.turned(stack.view(), stack.layers());
        host.wait(wake.sooner(Wake::At(host.now() + Nanos::from_millis(20)))).unwrap();
    }
}

#[test]
fn a_record_replays_and_another_policy_is_compared() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.rec");
    record(&file);
    let file = file.to_str().unwrap();
    let text = out(&quell(&["replay", file]));
    assert!(text.contains("25 steps: every plan is the recorded one, byte for byte"), "{text}");
    let text = out(&quell(&["replay", file, "--policy", "none"]));
    assert!(text.contains("1 plans differ: none instead of guard"), "{text}");
    let lines = out(&quell(&["replay", file, "--json"]));
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((lines.lines().count(), &last["different"]), (26, &0.into()));
    let refused = quell(&["replay", file, "--policy", "nine"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("there is no policy 'nine'"));
}
