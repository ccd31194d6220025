//! Which policy it takes, and what that means for the target.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::scene::{FIFO, Ours, STRANGER, Scene, is_root, until};
use rustix::process::Signal;
use serde_json::Value;

/// A process with one thread that never pauses.
fn spinner() -> Ours {
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]);
    Ours::of(command)
}

fn cpus() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// Is there a CPU to give away?
fn is_possible() -> bool {
    let is_possible = is_root() && cpus() > 1;
    if !is_possible {
        eprintln!("not tested here: needs root and two CPUs");
    }
    is_possible
}

#[test]
fn rkube_gives_whole_cpus_and_takes_them_back() {
    if !is_possible() {
        return;
    }
    let scene = Scene::new("own");
    let server = scene.server();
    let before = server.allowed();
    let pid = server.pid().to_string();
    let mut quell = scene.begin(&["protect", &pid, "--policy", "rkube", "--measure", "0", "--json"]);
    until("it has one CPU of its own", || server.allowed().parse::<u32>().is_ok());
    until("the result is there", || scene.output().is_object());
    assert_eq!(scene.output()["cpus_requested"], 1.0, "{}", scene.output());
    quell.ctrl_c();
    assert_eq!((quell.ends(), server.allowed()), (Some(0), before), "{}", scene.log());
}

#[test]
fn what_waits_more_than_it_runs_is_judged_as_recommend_judges_it() {
    if !is_possible() {
        return;
    }
    let scene = Scene::new("same");
    let (server, _others) = (spinner(), (0..3 * cpus()).map(|_| spinner()).collect::<Vec<_>>());
    let pid = server.pid().to_string();
    let said = scene.said(&["recommend", &pid, "--json"]);
    let recommended: Value = serde_json::from_str(&said.out).unwrap();
    let looks = &recommended["looks"];
    assert!(looks["waited"].as_u64() > looks["ran"].as_u64(), "{recommended}");
    // Quell's own scheduler is never loaded unasked. Whole CPUs are kept from what Quell manages, and nothing beside it is.
    let answer = recommended["answer"].as_str().unwrap();
    assert!(["CPUWeight=", "caladan"].contains(&answer), "{recommended}");
    let refused = scene.said(&["protect", &pid, "--measure", "0"]);
    let offer = "run `quell protect --be BATCH`";
    assert!(refused.code == Some(1) && refused.error.contains(offer), "{refused:?}");
    // Beside an agent's workloads both say rkube, which is what they are kept from.
    let other = scene.server();
    let batch = other.pid();
    let mut agent = scene.agent(&format!(
        "[[policy]]\nname = \"rkube\"\n[[workload]]\nname = \"batch\"\nclass = \"be\"\nmatch = [{{ pid = {batch} }}]\n"
    ));
    let said = scene.said(&["recommend", &pid, "--json"]);
    let recommended: Value = serde_json::from_str(&said.out).unwrap();
    let answer = recommended["answer"].as_str().unwrap();
    assert!(["rkube", "caladan"].contains(&answer), "{recommended}");
    let done = scene.said(&["protect", &pid, "--measure", "0", "--for", "1s", "--json"]);
    assert!(done.code == Some(0) && done.out.contains("\"policy\":\"rkube\""), "{done:?}");
    agent.signal(Signal::TERM);
    agent.ends();
}

#[test]
fn an_ordinary_user_gets_the_line_for_root_once() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("sudo");
    let server = scene.strangers_server();
    let program = scene.path("quell");
    std::fs::copy(env!("CARGO_BIN_EXE_quell"), &program).unwrap();
    let mut command = Command::new(&program);
    let run_dir = scene.path("strangers");
    command.args(["protect", &server.pid().to_string()]).env("QUELL_RUN_DIR", run_dir).uid(STRANGER).gid(STRANGER);
    let refused = command.output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains(&format!("run `sudo quell protect {}`", server.pid())), "{said}");
    assert!(refused.status.code() == Some(1) && said.lines().count() == 1 && !said.contains("run as root"), "{said}");
}

#[test]
fn the_run_budget_that_was_given_is_the_one_that_decides() {
    if !is_root() {
        return;
    }
    let scene = Scene::new("set");
    let server = spinner();
    let pid = server.pid().to_string();
    let cpus = if cpus() > 1 { "1" } else { "0.5" };
    let budget = ["protect", &pid, "--cpus", cpus, "--set", "run_budget=9s", "--measure", "0", "--json"];
    let mut quell = scene.begin(&budget);
    until("it is protected", || server.policy() == FIFO);
    until("the result is there", || scene.output().is_object());
    assert_eq!(scene.output()["policy"], "guard", "{}", scene.output());
    quell.signal(Signal::INT);
    assert_eq!(quell.ends(), Some(0), "{}", scene.log());
    let wrong = scene.said(&["protect", &pid, "--set", "run_bugdet=9s", "--measure", "60s"]);
    assert!(wrong.code == Some(1) && wrong.error.contains("did you mean 'run_budget'"), "{wrong:?}");
    assert!(!wrong.error.contains("before anything is set"), "it is refused before it measures: {wrong:?}");
}
