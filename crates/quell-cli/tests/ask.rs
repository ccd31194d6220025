//! Asking: status, top, why, doctor and replay as a user meets them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};
use std::thread::JoinHandle;

use quell_agent::api::{self, About, Api, ApiConfig};
use quell_agent::stack::{Layer, Stack, Witness};
use quell_agent::watch::{SIGNALS, watch};
use quell_model::{CpuCount, CpuSet, Host, Nanos, Topology, Wake};
use quell_policy::AnyPolicy;
use quell_sim::{KernelConfig, SimHost, WorkloadSpec};

fn quell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quell")).args(arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Half a second of guard on a simulated machine, in front of these witnesses.
fn run(witness: impl FnOnce(&Stack) -> Box<dyn Witness>) -> Box<dyn Witness> {
    let workloads = [WorkloadSpec::lc("db", CpuCount::whole(1)).using(1, 0.5), WorkloadSpec::be("batch").busy(2)];
    let mut host =
        SimHost::new(Topology::synthetic(1, 1, 4, 1), KernelConfig::default(), &workloads, 1, false).unwrap();
    let layers = vec![Layer::new(AnyPolicy::named("guard").unwrap(), None)];
    let mut stack = Stack::new(layers, host.view(), CpuSet::first(4)).unwrap();
    stack.also_measure(SIGNALS, quell_linux::cpu_time);
    let mut witness = witness(&stack);
    for _ in 0..25 {
        let wake = stack.turn(&mut host).unwrap();
        witness.turned(stack.view(), stack.layers());
        host.wait(wake.sooner(Wake::At(host.now() + Nanos::from_millis(20)))).unwrap();
    }
    witness
}

#[test]
fn without_an_agent_the_fix_is_named() {
    for command in [["status"].as_slice(), &["why", "db"], &["top"]] {
        let output = quell(&[command, &["--socket", "/nonexistent/quell.sock"]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {text}");
        assert!(text.contains("quell run --config"), "{command:?}: {text}");
    }
}

#[test]
fn a_running_agent_tells_what_it_does() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("quell.sock");
    let mut api = None;
    let _watch = run(|stack| {
        let (watch, watched) = watch(stack.view(), stack.layers());
        let about = About { mode: "run".into(), host: "sim".into(), ..About::default() };
        let config = ApiConfig { socket: socket.clone(), ..ApiConfig::default() };
        api = Some(Api::start(&config, api::state(about, watched).0).unwrap());
        Box::new(watch)
    });
    let socket = socket.to_str().unwrap();
    let status = out(&quell(&["status", "--socket", socket]));
    assert!(status.contains("SCHED_FIFO 1") && status.contains("runs only on idle CPUs"), "{status}");
    let why = out(&quell(&["why", "db", "--socket", socket]));
    assert!(why.contains("db (LC), owned by guard") && why.contains("SCHED_FIFO 1"), "{why}");
    let json = out(&quell(&["top", "--json", "--count", "1", "--socket", socket]));
    let status: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(status["workloads"][0]["name"], "db");

    let (collector, address) = collector();
    out(&quell(&["otlp", "--once", "--to", &format!("http://{address}"), "--socket", socket]));
    let sent = collector.join().unwrap();
    let metrics = sent["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let used = metrics.iter().find(|metric| metric["name"] == "quell_workload_run_time_seconds").unwrap();
    // In any order.
    let mut points = used["sum"]["dataPoints"].as_array().unwrap().iter();
    let point = points.find(|point| point["attributes"][0]["value"]["stringValue"] == "db").unwrap();
    assert!(point["asDouble"].is_f64() && used["unit"] == "s", "{used}");
    let without = quell(&["otlp", "--once", "--to", &format!("http://{address}"), "--socket", socket]);
    let text = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(
        without.status.code() == Some(1)
            && text.contains("the collector at http://127.0.0.1:")
            && text.contains("refused"),
        "{text}"
    );
}

/// A collector of one request: what it was sent.
fn collector() -> (JoinHandle<serde_json::Value>, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let collector = std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let (mut length, mut line) = (0, String::new());
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).unwrap();
            length = line.strip_prefix("content-length: ").map_or(length, |length| length.trim().parse().unwrap());
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        serde_json::from_slice(&body).unwrap()
    });
    (collector, address)
}

#[test]
fn the_doctor_judges_every_policy() {
    let json: serde_json::Value = serde_json::from_str(&out(&quell(&["doctor", "--json"]))).unwrap();
    assert_eq!(json["policies"].as_array().unwrap().len(), AnyPolicy::ALL.len());
    for finding in json["findings"].as_array().unwrap() {
        assert!(
            ["what", "consequence", "fix"].iter().all(|part| finding[part].as_str().is_some_and(|t| !t.is_empty()))
        );
    }
    let text = out(&quell(&["doctor", "none"]));
    assert!(text.contains("none") && text.contains("works"), "{text}");
    let refused = quell(&["doctor", "--cpus", "1000"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("CPUs 1000 are not online"));
}
