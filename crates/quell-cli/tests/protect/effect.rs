//! Before and after: a server beside threads that spin.

use std::process::{Command, Stdio};

use super::scene::{FIFO, Ours, Scene, is_root, until};
use rustix::process::Signal;

/// Spins on all CPUs, twice over.
fn spinners(scene: &Scene) -> Ours {
    let threads = 2 * std::thread::available_parallelism().unwrap().get();
    let mut command =
        scene.quell("load", &["antagonist", "cpu", "--threads", &threads.to_string(), "--duration", "120s"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ours::of(command)
}

/// A server that answers on a port of its own; None: memcached is not installed. At nice 19 it waits whenever another
/// thread runs; at 0 a server that runs shortly and rests may wait for nothing.
fn memcached() -> Option<(Ours, u16)> {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    Command::new("memcached").arg("-V").stdout(Stdio::null()).status().ok()?;
    let mut command = Command::new("nice");
    command
        .args(["-n", "19", "memcached", "-u", "root", "-l", "127.0.0.1", "-t", "1", "-p", &port.to_string()])
        .stderr(Stdio::null());
    command.stdin(Stdio::null());
    let child = command.spawn().ok()?;
    let server = Ours(child);
    until("memcached listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    Some((server, port))
}

#[test]
fn a_server_beside_spinning_threads_is_measured_before_and_after() {
    let Some((server, port)) = memcached().filter(|_| is_root()) else {
        eprintln!("not tested here: needs root and memcached");
        return;
    };
    let scene = Scene::new("eff");
    let _spinners = spinners(&scene);
    let url = format!("memcached://127.0.0.1:{port}");
    let pid = server.pid().to_string();
    let mut quell =
        scene.begin(&["protect", &pid, "--policy", "guard", "--cpus", "1", "--url", &url, "--measure", "6s", "--json"]);
    until("it is protected", || server.policy() == FIFO);
    until("the result is there", || scene.output()["effect"].is_object());
    quell.signal(Signal::INT);
    assert_eq!((quell.ends(), server.policy()), (Some(0), 0), "{}", scene.log());
    let result = scene.output();
    assert_eq!((&result["policy"], &result["by"]), (&"guard".into(), &"this process".into()), "{result}");
    let effect = &result["effect"];
    assert_eq!(effect["measure"], "probe", "{result}");
    assert!(effect["before"]["count"].as_u64() > Some(100), "{result}");
    let [before, after] = ["before_ns", "after_ns"].map(|key| effect["comparison"][key].as_u64().unwrap());
    assert!(after < before, "{result}");
}

#[test]
fn without_a_source_of_latency_it_is_queueing_delay_and_is_called_so() {
    let scene = Scene::new("que");
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]);
    let server = Ours::of(command);
    let pid = server.pid().to_string();
    let mut quell = scene.begin(&["protect", &pid, "--be", "--measure", "2s"]);
    let text = || std::fs::read_to_string(scene.path("protect.out")).unwrap();
    until("the result is there", || text().contains("until Ctrl-C"));
    quell.signal(Signal::INT);
    assert_eq!(quell.ends(), Some(0), "{}", scene.log());
    let first = text().lines().next().unwrap().to_owned();
    assert!(!text().contains("latency"), "{}", text());
    assert!(first.contains("queueing delay") || first.contains("too little"), "{}", text());
}

#[test]
fn threads_that_run_too_long_for_guard_are_refused_with_what_does_help() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("long");
    // Beside these it waits more than it runs: that it never pauses is what its switches say.
    let _spinners = spinners(&scene);
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]);
    let server = Ours::of(command);
    let pid = server.pid().to_string();
    // On a crowded machine it may run for less than a budget in the time that it is measured.
    until("it is refused", || {
        let said = scene.said(&["protect", &pid, "--measure", "3s", "--quiet", "--for", "1s"]);
        let lines = said.error.lines().count();
        said.code == Some(1)
            && lines == 1
            && ["without blocking", "`quell gap` names that", "`quell protect --be BATCH`"]
                .iter()
                .all(|part| said.error.contains(part))
    });
    assert_eq!(server.policy(), 0);
}

#[test]
fn what_guard_demotes_is_said_once() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("demo");
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]);
    let server = Ours::of(command);
    let pid = server.pid().to_string();
    let mut quell = scene.begin(&["protect", &pid, "--policy", "guard", "--cpus", "1", "--measure", "0", "--quiet"]);
    until("it is demoted", || scene.log().contains(": demoted for a while"));
    quell.signal(Signal::INT);
    assert_eq!((quell.ends(), server.policy()), (Some(0), 0), "{}", scene.log());
    assert_eq!(scene.log().matches("demoted").count(), 1, "{}", scene.log());
}
