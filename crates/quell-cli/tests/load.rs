//! `quell load` as its users call it: against a real memcached, and beside a running agent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Much longer than anything takes, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with the test.
struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn quell(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn memcached(directory: &Path) -> (Ours, PathBuf) {
    let socket = directory.join("memcached.sock");
    let server =
        Command::new("memcached").args(["-u", "root", "-U", "0", "-t", "1", "-m", "64", "-s"]).arg(&socket).spawn();
    let server = Ours(server.expect("memcached is not installed: run scripts/setup"));
    until("memcached answers", || UnixStream::connect(&socket).ok());
    (server, socket)
}

/// Items that a memcached holds, as it says.
fn items(socket: &Path) -> u64 {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"stats\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| line != "END");
    lines.find_map(|line| line.strip_prefix("STAT curr_items ")?.trim().parse().ok()).unwrap()
}

#[test]
fn what_is_no_memcached_is_refused_by_one_line() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    for (arguments, words) in [
        (&["--target", &address][..], ["HTTP/1.1 400", "--protocol http"]),
        (&["--target", &address, "--protocol", "redis"], ["HTTP/1.1 400", "--protocol http"]),
        (&["--target", &format!("redis://{address}"), "--protocol", "http"], ["--protocol http", "redis"]),
        (&["--target", &format!("http://{address}/"), "--set-ratio", "0.5"], ["set ratio", "GETs alone"]),
        (&["--target", "https://localhost/"], ["https://localhost/", "encrypted"]),
        (&["--target", "192.0.2.1:11211"], ["192.0.2.1:11211", "--remote"]),
    ] {
        let output = quell(&[&["load", "--duration", "60s"], arguments].concat()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
        assert!(words.iter().all(|word| text.contains(word)), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn a_load_says_what_it_writes_and_deletes_it_also_at_an_interrupt() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, socket) = memcached(directory.path());
    let target = format!("unix:{}", socket.display());
    let arguments = ["load", "--target", &target, "--rate", "1k", "--keys", "500", "--duration", "10m", "--json"];
    let load = quell(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the keys are there", || (items(&socket) == 500).then_some(()));
    kill_process(Pid::from_child(&load), Signal::INT).unwrap();
    let output = load.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("memcached 1.") && said.contains("writes 500 keys of 100 B"), "{said}");
    assert!(said.contains("deletes them at the end"), "{said}");
    assert_eq!(items(&socket), 0);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert!(report["server"].as_str().unwrap().starts_with("memcached "), "{report}");
    assert_eq!((&report["spec"]["seed"], &report["keys_deleted"]), (&1.into(), &500.into()));
}

#[test]
fn a_posted_latency_shows_up_in_the_agents_status() {
    let directory = tempfile::tempdir().unwrap();
    let (server, memcached) = memcached(directory.path());
    let (config, api) = (directory.path().join("quell.toml"), directory.path().join("socket"));
    let text = format!(
        "[[policy]]\nname = \"guard\"\n[[workload]]\nname = \"cache\"\nclass = \"lc\"\ncpus = 1\n\
         slo = {{ quantile = 0.99, bound = \"1ms\" }}\nmatch = [{{ pid = {} }}]\n",
        server.0.id()
    );
    std::fs::write(&config, text).unwrap();
    let mut agent = quell(&["run", "--shadow", "--config"]);
    agent.arg(&config).arg("--run-dir").arg(directory.path().join("run")).arg("--socket").arg(&api);
    let _agent = Ours(agent.stdout(Stdio::null()).env("QUELL_LOG", "warn").spawn().unwrap());
    let api = api.to_str().unwrap();
    let workload = || -> Option<Value> {
        let output = quell(&["status", "--json", "--socket", api]).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        Some(status["workloads"].get(0)?.clone())
    };
    assert!(until("the agent has its workload", workload)["latency_ns"].is_null());

    let target = format!("unix:{}", memcached.display());
    let load = ["load", "--target", &target, "--rate", "500", "--socket", api, "--post"];
    let unknown = quell(&[&load[..], &["cash"]].concat()).output().unwrap();
    let text = String::from_utf8_lossy(&unknown.stderr);
    assert!(text.contains("cash") && text.contains("it has: cache") && text.lines().count() == 1, "{text}");

    let load = quell(&[&load[..], &["cache", "--duration", "10m"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let latency = until("the latency is there", || workload()?["latency_ns"]["value"].as_f64());
    assert!(latency > 0.0);
    kill_process(Pid::from_child(&load), Signal::INT).unwrap();
    let output = load.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("histograms of cache's latency"), "{said}");
}
