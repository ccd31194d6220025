//! Bad requests to a running agent.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use quell_agent::api::{self, About, Api, ApiConfig};
use quell_agent::stack::{Layer, Stack};
use quell_agent::watch::{SIGNALS, watch};
use quell_model::{CpuCount, CpuSet, Host, Nanos, Topology, Wake};
use quell_policy::AnyPolicy;
use quell_sim::{KernelConfig, SimHost, WorkloadSpec};

/// Method and path, body, status, and what the answer says.
pub const ROWS: &[(&str, &str, u16, &str)] = &[
    ("GET /", "", 404, "there is no '/' … GET /v1/schema"),
    ("GET /v2/status", "", 404, "there is no '/v2/status' … GET /v1/schema"),
    ("GET /v1/stats", "", 404, "there is no '/v1/stats'"),
    ("GET /v1/why", "", 404, "there is no '/v1/why'"),
    ("GET /v1/why/nosuch", "", 404, "there is no workload 'nosuch' … there are: db"),
    ("GET /v1/why/%00", "", 404, "there is no workload"),
    ("GET /v1/why/..%2f..%2fetc", "", 404, "there is no workload"),
    ("POST /v1/status", "", 405, "does not accept this method … GET /v1/schema"),
    ("DELETE /v1/why/db", "", 405, "does not accept this method"),
    ("GET /v1/histogram", "", 405, "does not accept this method"),
    ("POST /v1/histogram", "", 400, "EOF … Histogram"),
    ("POST /v1/histogram", "nonsense", 400, "expected … Histogram"),
    ("POST /v1/histogram", "[]", 400, "Histogram"),
    ("POST /v1/histogram", "{}", 400, "missing field `workload` … Histogram"),
    ("POST /v1/histogram", r#"{"workload": 7}"#, 400, "expected a string"),
    ("POST /v1/histogram", r#"{"workload": "db"}"#, 400, "missing field `window_ns`"),
    ("POST /v1/histogram", r#"{"workload": "db", "window_ns": 1000000000}"#, 400, "missing field `buckets`"),
    ("POST /v1/histogram", r#"{"workload": "db", "window_ns": 1000000000, "buckets": 5}"#, 400, "expected a sequence"),
    (
        "POST /v1/histogram",
        r#"{"workload": "db", "window_ns": 1000000000, "buckets": []}"#,
        400,
        "it contains no requests; post only windows",
    ),
    ("POST /v1/histogram", r#"{"workload": "db", "window_ns": 1000000000, "buckets": [[5, -1]]}"#, 400, "-1"),
    ("POST /v1/histogram", r#"{"workload": "db", "window_ns": 1000000000, "buckets": [[5]]}"#, 400, "length 1"),
    ("POST /v1/histogram", r#"{"workload": "db", "window_ns": 1000000000, "buckets": [[5, 0]]}"#, 400, "no request"),
    (
        "POST /v1/histogram",
        r#"{"workload": "db", "window_ns": 0, "buckets": [[5, 1]]}"#,
        400,
        "its window is empty; set window_ns",
    ),
    (
        "POST /v1/histogram",
        r#"{"workload": "db", "window_ns": 1000000000, "buckets": [[5, 1]], "ended_ns": 1}"#,
        400,
        "it ended at 1 ns … post it within",
    ),
    (
        "POST /v1/histogram",
        r#"{"workload": "nosuch", "window_ns": 1000000000, "buckets": [[5, 1]]}"#,
        404,
        "no workload 'nosuch' … db",
    ),
    (
        "POST /v1/histogram",
        r#"{"workload": "db", "window_ns": 1000000000, "buckets": [[5, 1]], "more": 1}"#,
        400,
        "more",
    ),
];

fn ask(socket: &Path, request: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    let text =
        format!("{request} HTTP/1.1\r\nhost: quell\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
}

#[test]
fn a_bad_request_is_refused_with_the_fix() {
    let workloads = [WorkloadSpec::lc("db", CpuCount::whole(1)).using(1, 0.5)];
    let mut host =
        SimHost::new(Topology::synthetic(1, 1, 4, 1), KernelConfig::default(), &workloads, 1, false).unwrap();
    let layers = vec![Layer::new(AnyPolicy::named("guard").unwrap(), None)];
    let mut stack = Stack::new(layers, host.view(), CpuSet::first(4)).unwrap();
    stack.also_measure(SIGNALS, quell_linux::cpu_time);
    let (mut watch, watched) = watch(stack.view(), stack.layers());
    let wake = stack.turn(&mut host).unwrap();
    quell_agent::stack::Witness::turned(&mut watch, stack.view(), stack.layers());
    host.wait(wake.sooner(Wake::At(host.now() + Nanos::from_millis(20)))).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("api.sock");
    let about = About { mode: "run".into(), host: "sim".into(), ..About::default() };
    let config = ApiConfig { socket: socket.clone(), ..ApiConfig::default() };
    let _api = Api::start(&config, api::state(about, watched).0).unwrap();

    let mut wrong = Vec::new();
    for (request, body, status, says) in ROWS {
        let (got, answer) = ask(&socket, request, body);
        let problem: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
        let has = |part: &str| problem[part].as_str().is_some_and(|text| !text.is_empty());
        if got != *status || !quell_checks::bad_inputs::holds(&answer, says) || !has("error") || !has("fix") {
            wrong.push(format!("{request} {body}: {got}: {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), ROWS.len(), wrong.join("\n"));
}
