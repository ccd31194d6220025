//! Whole experiments: one that helps, and one whose sides do not differ.

use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::scene::{Ours, Scene, is_root, until};

/// Two experiments at once are each other's disturbance.
static ALONE: Mutex<()> = Mutex::new(());
const SHORT: [&str; 5] = ["--off-share", "0.5", "--for", "40s", "--json"];

/// At nice 19 it waits whenever another thread runs; at 0 a server that runs shortly and rests may wait for nothing.
pub fn memcached(nice: &str) -> Option<(Ours, u16)> {
    Command::new("memcached").arg("-V").stdout(Stdio::null()).status().ok()?;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("nice");
    command
        .args(["-n", nice, "memcached", "-u", "root", "-l", "127.0.0.1", "-t", "1", "-p", &port.to_string()])
        .stderr(Stdio::null());
    let server = Ours(command.stdin(Stdio::null()).spawn().ok()?);
    until("memcached listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    Some((server, port))
}

#[test]
fn guard_helps_a_server_beside_threads_that_spin() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((server, port)) = memcached("19").filter(|_| is_root()) else {
        eprintln!("not tested here: needs root and memcached");
        return;
    };
    let scene = Scene::new("hel");
    let threads = (2 * std::thread::available_parallelism().unwrap().get()).to_string();
    let mut spinners = scene.quell("load", &["antagonist", "cpu", "--threads", &threads, "--duration", "200s"]);
    spinners.stdout(Stdio::null()).stderr(Stdio::null());
    let _spinners = Ours::of(spinners);
    let (pid, page) = (server.pid().to_string(), scene.path("page.html"));
    let url = format!("memcached://127.0.0.1:{port}");
    let asked = ["prove", &pid, "--policy", "guard", "--cpus", "1", "--url", &url, "--html", page.to_str().unwrap()];
    let mut quell = scene.begin(&[&asked[..], &SHORT].concat());
    let code = quell.ends();
    let proved = scene.output();
    assert_eq!((code, &proved["result"]["verdict"]), (Some(0), &Value::from("helps")), "{proved} {}", scene.log());
    assert_eq!((&proved["measure"], &proved["by"]), (&"probe".into(), &"this process".into()), "{proved}");
    assert!(proved["result"]["interval"][1].as_f64().unwrap() < 1.0, "{proved}");
    assert!(proved["headline"].as_str().unwrap().contains("helps: p"), "{proved}");
    assert!(proved["used_on"]["quell_cpu_seconds"].as_f64() > Some(0.0), "{proved}");
    assert_eq!(server.policy(), 0, "everything is put back");
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("Blocks over time") && html.contains("Distribution of latency"), "{html}");
    let said = scene.log();
    for part in ["policy guard against nothing", "drawn at random", "a verdict after", "block 1 of 32"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// As best-effort work a server waits for all that spins.
#[test]
fn a_policy_made_harmful_harms_and_everything_is_put_back() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((server, port)) = memcached("0").filter(|_| is_root()) else {
        eprintln!("not tested here: needs root and memcached");
        return;
    };
    let scene = Scene::new("bad");
    let threads = (2 * std::thread::available_parallelism().unwrap().get()).to_string();
    let mut spinners = scene.quell("load", &["antagonist", "cpu", "--threads", &threads, "--duration", "200s"]);
    spinners.stdout(Stdio::null()).stderr(Stdio::null());
    let _spinners = Ours::of(spinners);
    let (pid, url) = (server.pid().to_string(), format!("memcached://127.0.0.1:{port}"));
    let mut quell = scene.begin(&[&["prove", &pid, "--be", "--policy", "guard", "--url", &url], &SHORT[..]].concat());
    let code = quell.ends();
    let proved = scene.output();
    assert_eq!((code, &proved["result"]["verdict"]), (Some(1), &"harms".into()), "{proved} {}", scene.log());
    assert!(proved["result"]["interval"][0].as_f64().unwrap() > 1.0, "{proved}");
    assert_eq!(server.policy(), 0, "everything is put back");
}

/// A wrong verdict is rare, not impossible: two in a row are a fault.
#[test]
#[ignore = "a minute; `make soak` runs it"]
fn a_policy_does_not_help_against_itself_and_queueing_delay_is_called_so() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((server, port)) = memcached("0").filter(|_| is_root()) else {
        eprintln!("not tested here: needs root and memcached");
        return;
    };
    let scene = Scene::new("sel");
    let target = format!("127.0.0.1:{port}");
    let mut load = scene.quell("load", &["load", "--target", &target, "--rate", "500", "--duration", "200s"]);
    load.stdout(Stdio::null()).stderr(Stdio::null());
    let _load = Ours::of(load);
    let pid = server.pid().to_string();
    let asked = ["prove", &pid, "--policy", "guard", "--against", "guard"];
    let helps = || {
        let mut quell = scene.begin(&[&asked[..], &SHORT].concat());
        let code = quell.ends();
        let proved = scene.output();
        assert_eq!(proved["measure"], "queueing-delay", "{proved} {}", scene.log());
        let headline = proved["headline"].as_str().unwrap();
        assert!(headline.contains("queueing delay p"), "{headline}");
        assert!(!headline.contains("latency") && !scene.log().contains("latency"), "{headline} {}", scene.log());
        assert_eq!(code == Some(0), proved["result"]["verdict"] == "helps", "{proved}");
        code == Some(0)
    };
    assert!(!(helps() && helps()));
    assert_eq!(server.policy(), 0, "everything is put back");
}
