//! The API over a real socket, in front of a loop on a simulated host.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use quell_agent::api::{self, About, Api, ApiConfig, Client, Feed, wire};
use quell_agent::stack::{Layer, Stack, Witness};
use quell_agent::watch::{SIGNALS, Watch, watch};
use quell_model::{CpuCount, CpuSet, Host, Nanos, Signal, Slo, Topology, Wake};
use quell_policy::AnyPolicy;
use quell_scrape::{Source, Unit};
use quell_sim::{KernelConfig, SimHost, WorkloadSpec};

struct Bench {
    stack: Stack,
    host: SimHost,
    watch: Watch,
    feed: Feed,
    socket: PathBuf,
    _api: Api,
    _directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let slo = Some(Slo { quantile: 0.99, bound: Nanos::from_millis(1) });
        let db = WorkloadSpec { slo, ..WorkloadSpec::lc("db", CpuCount::whole(1)).using(1, 0.5) };
        let workloads = [db, WorkloadSpec::be("batch / jobs").busy(2)];
        let host =
            SimHost::new(Topology::synthetic(1, 1, 4, 1), KernelConfig::default(), &workloads, 1, false).unwrap();
        let layers = vec![Layer::new(AnyPolicy::named("guard").unwrap(), None)];
        let mut stack = Stack::new(layers, host.view(), CpuSet::first(4)).unwrap();
        stack.also_measure(SIGNALS, quell_linux::cpu_time);
        let (watch, watched) = watch(stack.view(), stack.layers());
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("api.sock");
        let about = About {
            mode: "dry-run".into(),
            host: "sim".into(),
            limits: vec!["guard: a limit".into()],
            ..About::default()
        };
        let (state, feed) = api::state(about, watched);
        let config = ApiConfig { socket: socket.clone(), ..ApiConfig::default() };
        let api = Api::start(&config, state).unwrap();
        Bench { stack, host, watch, feed, socket, _api: api, _directory: directory }
    }

    fn run(&mut self, span: Nanos) {
        let until = self.host.now() + span;
        while self.host.now() < until {
            let wake = self.stack.turn(&mut self.host).unwrap();
            self.watch.turned(self.stack.view(), self.stack.layers());
            self.host.wait(wake.sooner(Wake::At(until))).unwrap();
        }
    }

    fn client(&self) -> Client {
        Client::new(&self.socket).unwrap()
    }

    /// What comes back for these bytes until the connection ends.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The agent may have hung up already.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

#[test]
fn a_running_loop_can_be_questioned() {
    let mut bench = Bench::new();
    let before: wire::Status = bench.client().get("/v1/status").unwrap();
    assert_eq!((before.turns, before.workloads.len()), (0, 0), "asked before the first turn");
    for _ in 0..4 {
        bench.run(Nanos::from_secs(1));
        let _: wire::Status = bench.client().get("/v1/status").unwrap();
    }
    let status: wire::Status = bench.client().get("/v1/status").unwrap();
    assert_eq!((status.agent.mode.as_str(), status.agent.pid), ("dry-run", std::process::id()));
    let db = &status.workloads[0];
    assert_eq!((db.name.as_str(), db.class, db.cpus_requested), ("db", wire::Class::Lc, 1.0));
    assert_eq!(db.knobs, ["SCHED_FIFO 1"]);
    let got = db.cpus_used.unwrap();
    assert!((got.value - 0.5).abs() < 0.05, "it wants half a CPU and has the right to it: {got:?}");
    assert_eq!(status.layers[0].policy, "guard");
    assert_eq!(status.cpus.len(), 4);

    let why: wire::Why = bench.client().get(&format!("/v1/why/{}", api::client::path_segment("batch / jobs"))).unwrap();
    let texts: Vec<&str> = why.decisions.iter().map(|decision| decision.text.as_str()).collect();
    assert_eq!(texts, ["runs only on idle CPUs"]);
    let none = bench.client().get::<wire::Thread>("/v1/threads/999999").unwrap_err().to_string();
    assert!(none.contains("no workload has a thread '999999'"), "{none}");
    let policies: Vec<wire::Policy> = bench.client().get("/v1/policies").unwrap();
    assert!(policies.iter().any(|policy| policy.name == "guard" && policy.active));
    let schema: serde_json::Value = bench.client().get("/v1/schema").unwrap();
    assert!(schema["GET /v1/status"]["properties"]["workloads"].is_object());
}

#[test]
fn what_does_not_exist_is_refused_with_the_fix() {
    let mut bench = Bench::new();
    bench.run(Nanos::from_millis(100));
    let error = |path: &str| bench.client().get::<wire::Why>(path).err().unwrap().to_string();
    let text = error("/v1/why/unknown");
    assert!(text.contains("'unknown'") && text.contains("db, batch / jobs"), "{text}");
    assert!(error("/v2/status").contains("/v1/schema"));
    assert!(error("/v1/histogram").contains("method"));
    let nowhere = Client::new(&bench.socket.with_extension("not")).unwrap();
    let text = nowhere.get::<wire::Status>("/v1/status").err().unwrap().to_string();
    assert!(text.contains("no agent answers") && text.contains("quell run --config"), "{text}");
}

#[test]
fn posted_histograms_reach_the_loop_at_the_slos_quantile() {
    let mut bench = Bench::new();
    bench.run(Nanos::from_millis(100));
    let histogram = wire::Histogram {
        workload: "db".into(),
        window_ns: 1_000_000_000,
        ended_ns: None,
        buckets: vec![(100_000, 98), (2_000_000, 2)],
    };
    let accepted: wire::Accepted = bench.client().post("/v1/histogram", &histogram).unwrap();
    assert_eq!((accepted.latency_ns, accepted.requests), (2_000_000, 100));
    let posted: Vec<_> = bench.feed.drain().collect();
    assert_eq!(posted.len(), 1);
    assert_eq!(posted[0].sample.value, Nanos::from_millis(2));
    assert_eq!(posted[0].sample.window, Nanos::from_secs(1));
    let unknown = wire::Histogram { workload: "x".into(), ..histogram };
    let error = bench.client().post::<_, wire::Accepted>("/v1/histogram", &unknown).err().unwrap();
    assert!(error.to_string().contains("no workload 'x'"), "{error}");
}

#[test]
fn hostile_clients_hurt_nobody_else() {
    let mut bench = Bench::new();
    bench.run(Nanos::from_millis(100));
    // More idle connections than there are seats: those beyond are turned away at once.
    let idle: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(&bench.socket).unwrap()).collect();
    let start = std::time::Instant::now();
    bench.run(Nanos::from_secs(10));
    drop(idle);
    assert!(start.elapsed() < Duration::from_secs(60), "the loop does not feel them");
    std::thread::sleep(Duration::from_millis(300));

    let answer = bench.raw(b"\0\xff nonsense \r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400") || answer.is_empty(), "{answer}");
    let answer = bench.raw(&[b"GET /".as_slice(), &[b'a'; 100_000]].concat());
    assert!(!answer.contains("200 OK"), "{answer}");
    let large = vec![b' '; api::router::MAX_BODY + 1];
    let head = format!("POST /v1/histogram HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", large.len());
    let answer = bench.raw(&[head.as_bytes(), &large].concat());
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    let head = format!("POST /v1/histogram HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", deep.len());
    let answer = bench.raw(&[head.as_bytes(), &deep].concat());
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");

    let status: wire::Status = bench.client().get("/v1/status").unwrap();
    assert_eq!(status.workloads.len(), 2);
}

#[test]
fn metrics_are_what_the_status_says() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::new();
    bench.run(Nanos::from_secs(1));
    let mut status: wire::Status = bench.client().get("/v1/status").unwrap();
    assert!(!quell_agent::metrics::text(&status).contains("quell_memory"), "no policy reads it");
    let slowdown = wire::Measured { value: 1.5, age_ns: 0, window_ns: 0, quality: wire::Quality::Estimated };
    status.measured = status.measured.with(Signal::MemorySlowdown, Some(slowdown));
    status.workloads[0].slo_met = Some(false);
    status.configured = vec![wire::Configured {
        name: "web".into(),
        class: wire::Class::Lc,
        cpus_requested: 1.0,
        state: wire::State::Waiting,
        since_ns: 0,
        threads: None,
        selectors: vec!["systemd unit web.service".into()],
        why: None,
        leased_by: Some("root (process 7)".into()),
        latency: Some(wire::LatencyPage {
            address: "127.0.0.1:9102".into(),
            path: "/metrics".into(),
            metric: "request_duration".into(),
            unit: "ms".into(),
        }),
        departed: Vec::new(),
        overridden: Some(wire::Overridden {
            threads: 5,
            of: 5,
            since_ns: 1,
            differences: vec!["5 threads: SCHED_OTHER nice 0 instead of SCHED_FIFO 1".into()],
            then: "Quell leaves them so".into(),
        }),
        remarks: vec![],
    }];
    let text = quell_agent::metrics::text(&status);
    assert!(text.contains("quell_workload_slo_met{workload=\"db\",class=\"lc\"} 0.0"), "{text}");
    assert!(text.contains("quell_workload_demotions_total{workload=\"db\",class=\"lc\"} 0"), "{text}");
    for (state, is_so) in [("waiting", "1.0"), ("attached", "0.0"), ("exited", "0.0")] {
        let line = format!("quell_workload_state{{workload=\"web\",class=\"lc\",state=\"{state}\"}} {is_so}");
        assert!(text.contains(&line), "{text}");
    }
    assert!(text.contains("quell_workload_leased{workload=\"web\",class=\"lc\"} 1.0"), "{text}");
    let line = "quell_workload_overridden_threads{workload=\"web\",class=\"lc\"} 5.0";
    assert!(text.contains(line) && text.contains("quell_agent_off 0\n"), "{text}");
    assert!(text.contains("quell_memory_slowdown 1.5\n"), "{text}");
    assert!(text.contains("quell_workload_cpus_requested{workload=\"db\",class=\"lc\"} 1.0"), "{text}");
    assert!(text.contains("quell_workload_slo_bound_seconds{workload=\"db\",class=\"lc\"} 0.001"), "{text}");
    assert!(text.ends_with("# EOF\n"));

    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_, watched) = watch(bench.stack.view(), bench.stack.layers());
    let (state, _feed) = api::state(About::default(), watched);
    let config = ApiConfig { socket: directory.path().join("s"), metrics: Some(address), ..ApiConfig::default() };
    let _api = Api::start(&config, state).unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("quell_loop_turns_total 0"), "{answer}");
    assert!(answer.contains("text/plain; version=0.0.4") && !answer.contains("# EOF"), "{answer}");
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let accept = "accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2";
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: x\r\n{accept}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("application/openmetrics-text") && answer.ends_with("# EOF\n"), "{answer}");
}

/// A service with a Prometheus histogram of its own: at each look ten more requests of at most 1 ms.
fn instrumented() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (look, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 1024]);
            let count = look * 10;
            let page = format!("d_seconds_bucket{{le=\"0.001\"}} {count}\nd_seconds_bucket{{le=\"+Inf\"}} {count}\n");
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{page}", page.len());
        }
    });
    address
}

#[test]
fn a_services_own_histogram_is_read_as_if_it_were_posted() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::new();
    bench.run(Nanos::from_secs(2));
    let (mut watch, watched) = watch(bench.stack.view(), bench.stack.layers());
    watch.turned(bench.stack.view(), bench.stack.layers());
    let (state, feed) = api::state(About::default(), watched);
    let source = Source {
        workload: "db".into(),
        selectors: Vec::new(),
        address: instrumented(),
        path: "/metrics".into(),
        metric: "d_seconds".into(),
        unit: Unit::Seconds,
    };
    let config = ApiConfig { socket: directory.path().join("s"), sources: vec![source], ..ApiConfig::default() };
    let _api = Api::start(&config, state).unwrap();
    let began = std::time::Instant::now();
    let posted = loop {
        if let Some(posted) = feed.drain().next() {
            break posted;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nothing was read");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(posted.sample.value, Nanos(990_000), "p99 of what lies evenly in the bucket");
    assert!(posted.rate > 0.0 && posted.sample.window >= Nanos::from_millis(100), "{posted:?}");
}

#[test]
fn control_calls_need_a_loop_that_obeys() {
    let mut bench = Bench::new();
    bench.run(Nanos::from_secs(1));
    let refused = bench.client().control(wire::Command::Off).unwrap_err().to_string();
    assert!(refused.contains("the agent is ending"), "{refused}");
    let body = r#"{"version":4,"command":{"something":"new"}}"#;
    let request = format!("POST /v1/control HTTP/1.1\r\nhost: quell\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let answer = bench.raw(request.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("version 4"), "{answer}");
}

#[test]
fn metrics_with_a_token_answer_only_those_that_show_it_and_nothing_but_metrics() {
    use std::os::unix::fs::PermissionsExt;

    let (bench, directory) = (Bench::new(), tempfile::tempdir().unwrap());
    let token = directory.path().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let state = || {
        let (_, watched) = watch(bench.stack.view(), bench.stack.layers());
        api::state(About::default(), watched).0
    };
    let config = ApiConfig {
        socket: directory.path().join("s"),
        metrics: Some((std::net::Ipv4Addr::UNSPECIFIED, port).into()),
        ..ApiConfig::default()
    };
    let refused = Api::start(&config, state()).err().unwrap().to_string();
    assert!(refused.contains("give metrics.token"), "{refused}");
    let config = ApiConfig { metrics_token: Some(token), ..config };
    let _api = Api::start(&config, state()).unwrap();
    let asked = |request: &str, header: &str| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nhost: x\r\n{header}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let shown = "authorization: Bearer 0123456789abcdef\r\n";
    let answer = asked("GET /metrics", shown);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("quell_loop_turns_total 0"), "{answer}");
    for header in ["", "authorization: Bearer 0123456789abcdeg\r\n", "authorization: Basic 0123456789abcdef\r\n"] {
        for request in ["GET /metrics", "GET /v1/status", "GET /", "POST /v1/histogram"] {
            let answer = asked(request, header);
            assert!(
                answer.starts_with("HTTP/1.1 401") && !answer.contains("quell_loop"),
                "{request} {header}: {answer}"
            );
            assert!(answer.to_lowercase().contains("www-authenticate: bearer realm=\"quell_metrics\""), "{answer}");
        }
    }
    for request in ["GET /v1/status", "GET /v1/workloads", "POST /v1/control", "POST /v1/histogram", "GET /"] {
        let answer = asked(request, shown);
        assert!(answer.starts_with("HTTP/1.1 404"), "{request}: {answer}");
    }
}
