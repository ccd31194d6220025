//! A service's own histogram, which an agent has in its configuration.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::Signal;

use super::scene::{Ours, Scene, is_root, until};

/// Serves a histogram with a hundred requests more at each look, until the test ends.
fn metrics() -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let looks = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&looks);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.read(&mut [0; 4096]);
            let all = 100 * (counted.fetch_add(1, Ordering::AcqRel) + 1);
            let name = "request_duration_seconds";
            let body = format!(
                "# TYPE {name} histogram\n{name}_bucket{{le=\"0.001\"}} {all}\n{name}_bucket{{le=\"+Inf\"}} {all}\n{name}_sum \
                 {all}\n{name}_count {all}\n"
            );
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    (port, looks)
}

#[test]
fn the_histogram_in_an_agents_configuration_measures_the_effect() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("his");
    let server = scene.server();
    let (port, looks) = metrics();
    let (pid, address) = (server.pid(), format!("127.0.0.1:{port}"));
    let text = format!(
        "[[policy]]\nname = \"guard\"\n[[workload]]\nname = \"web\"\nclass = \"lc\"\ncpus = 0.5\nmatch = [{{ pid = {pid} }}]\n\
         latency = {{ address = \"{address}\", metric = \"request_duration_seconds\" }}\n"
    );
    std::fs::write(scene.path("quell.toml"), text).unwrap();
    // One that manages it would refuse that another does; one that only observes leaves it to `quell protect`.
    let (config, run_dir) = (scene.path("quell.toml"), scene.path("run"));
    std::fs::create_dir(&run_dir).unwrap();
    std::fs::set_permissions(&run_dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let socket = run_dir.join("api.sock");
    let words = ["run", config.to_str().unwrap(), "--dry-run", "--socket", socket.to_str().unwrap()];
    let mut command = scene.quell("run", &words);
    let _agent = Ours::of({
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    });
    let is_found = |status: serde_json::Value| {
        let web = &status["configured"][0];
        web["state"] == "attached" && web["latency"]["address"] == *address
    };
    until("the agent has found it", || scene.status().is_some_and(is_found));
    let mut quell = scene.begin(&["protect", &pid.to_string(), "--measure", "2s", "--json"]);
    until("the result is there", || scene.output().is_object());
    quell.signal(Signal::INT);
    assert_eq!(quell.ends(), Some(0), "{}", scene.log());
    let result = scene.output();
    assert_eq!(result["effect"]["measure"], "histogram", "{result}");
    assert!(result["effect"]["before"]["count"].as_u64() >= Some(100), "{result}");
    assert!(looks.load(Ordering::Acquire) > 2);
}
