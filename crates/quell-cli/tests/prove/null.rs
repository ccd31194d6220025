//! A policy that does nothing: how often is there a verdict that it helps or harms?

use std::sync::Mutex;

use super::scene::{Scene, is_root};
use super::verdicts::memcached;

const RUNS: usize = 40;
/// Five of a hundred are promised; more than this of forty happen once in seventy times.
const MOST: usize = 5;
/// Experiments at a time, each with a server of its own.
const AT_ONCE: usize = 4;

/// `cargo test -p quell-cli --locked --test prove -- --ignored --nocapture forty`
#[test]
#[ignore = "ten minutes; `make soak` runs it"]
fn of_forty_experiments_with_a_policy_that_does_nothing_five_at_most_have_a_verdict() {
    if !is_root() {
        return;
    }
    let verdicts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for runner in 0..AT_ONCE {
            let verdicts = &verdicts;
            scope.spawn(move || {
                for run in 0..RUNS / AT_ONCE {
                    let Some((server, port)) = memcached("0") else { return };
                    let scene = Scene::new(&format!("n{runner}"));
                    let (pid, url) = (server.pid().to_string(), format!("memcached://127.0.0.1:{port}"));
                    let asked =
                        ["prove", &pid, "--policy", "none", "--url", &url, "--off-share", "0.5", "--for", "40s"];
                    let mut quell = scene.begin(&[&asked[..], &["--json"]].concat());
                    quell.ends();
                    let proved = scene.output();
                    let verdict = proved["result"]["verdict"].as_str().unwrap_or("no result").to_owned();
                    println!("{runner}.{run}: {verdict}: {}", proved["headline"]);
                    verdicts.lock().unwrap().push(verdict);
                }
            });
        }
    });
    let verdicts = verdicts.into_inner().unwrap();
    if verdicts.is_empty() {
        return eprintln!("not tested here: needs memcached");
    }
    let wrong = verdicts.iter().filter(|verdict| matches!(verdict.as_str(), "helps" | "harms")).count();
    println!("{wrong} of {} have a verdict", verdicts.len());
    assert!(!verdicts.iter().any(|verdict| verdict == "no result") && wrong <= MOST, "{verdicts:?}");
}
