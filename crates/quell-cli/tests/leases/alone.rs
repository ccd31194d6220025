//! Commands that manage a workload without an agent are shown as one is.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use super::scene::{Ours, Scene, is_root, out, send, until};

fn exec(scene: &Scene, name: &str) -> Ours {
    // It ends with the test, even where Quell is killed.
    let goes_on = format!("while [ -d {} ]; do sleep 0.2; done", scene.run_dir().parent().unwrap().display());
    let mut command =
        scene.command(&["exec", "--class", "lc", "--cpus", "0.25", "--name", name, "--", "sh", "-c", &goes_on]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ours::of(command)
}

/// The process that a command's loop is in.
fn worker(scene: &Scene, name: &str) -> Option<i32> {
    let statuses = out(&scene.quell(&["status", "--json"]));
    let mut statuses = statuses.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_it = statuses.find(|status| status["workloads"][0]["name"] == name)?;
    of_it["agent"]["pid"].as_i64().map(|pid| pid as i32)
}

#[test]
fn status_why_and_verify_see_what_an_exec_manages_and_not_what_was_killed() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    assert_eq!(scene.quell(&["verify"]).status.code(), Some(3), "no one answers");
    let mut first = exec(&scene, "one");
    let is_set = |status: Value| status["workloads"][0]["knobs"][0] == "SCHED_FIFO 1";
    until("status shows what was set", || scene.status().is_some_and(is_set));
    let status = scene.status().unwrap();
    assert_eq!((&status["agent"]["mode"], &status["configured"][0]["state"]), (&"exec".into(), &"attached".into()));
    let whole = out(&scene.quell(&["status"]));
    assert!(whole.contains("(exec)") && whole.contains("guard"), "a single one as an agent is: {whole}");
    let verified = scene.quell(&["verify"]);
    let socket = scene.run_dir().join(format!("exec-{}.sock", first.pid()));
    assert!(verified.status.success() && out(&verified).starts_with("exec-"), "{verified:?}");
    assert!(out(&scene.quell(&["why", "one"])).contains("SCHED_FIFO 1") && socket.exists());
    let off = scene.quell(&["off", "--socket", socket.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&off.stderr).contains("not an agent; end the command"), "{off:?}");

    // What `quell protect` manages is named after that.
    let sleeper = Ours::sleeper();
    let mut command = scene.command(&["protect", &sleeper.pid().to_string(), "--be", "--measure", "0"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut third = Ours::of(command);
    let socket_of_third = scene.run_dir().join(format!("protect-{}.sock", third.pid()));
    until("a protected one is there, too", || {
        out(&scene.quell(&["status", "--json"])).contains(r#""mode":"protect""#) && socket_of_third.exists()
    });
    third.end(Signal::INT);

    let second = exec(&scene, "two");
    until("both are listed", || {
        let said = out(&scene.quell(&["status"])).replace("\n  ", " ");
        ["one (LC) under guard", "two (LC) under guard"].iter().all(|part| said.contains(part))
    });
    assert!(out(&scene.quell(&["why", "two"])).contains("guard"));
    let top = scene.quell(&["top", "--json"]);
    assert!(String::from_utf8_lossy(&top.stderr).contains("quell top --socket"), "{top:?}");

    // What was killed is skipped, and its socket removed: a worker, whose guardian waits for the command, and a pair.
    send(worker(&scene, "two").unwrap(), Signal::KILL);
    until("only the other one is there", || worker(&scene, "two").is_none());
    assert!(worker(&scene, "one").is_some() && !scene.run_dir().join(format!("exec-{}.sock", second.pid())).exists());
    let loops = worker(&scene, "one").unwrap();
    send(first.pid(), Signal::STOP);
    send(loops, Signal::KILL);
    first.end(Signal::KILL);
    until("no one answers", || scene.quell(&["verify"]).status.code() == Some(3));
    assert!(!socket.exists());
    assert!(scene.quell(&["restore"]).status.success());
}
