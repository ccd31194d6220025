//! `quell exec` beside an agent: the agent manages the command.

use std::path::Path;
use std::process::Stdio;

use quell_linux::sched::{Kernel, ThreadCalls};
use quell_model::SchedClass;
use rustix::process::Signal;

use super::scene::{FIFO, Ours, Scene, is_root, out, send, until};

/// Goes on until the scene ends, after it has written its number.
fn script(scene: &Scene, number: &Path) -> String {
    let directory = scene.run_dir().parent().unwrap().display().to_string();
    format!("echo $$ >{0}.new; mv {0}.new {0}; while [ -d {directory} ]; do sleep 0.2; done", number.display())
}

fn number(file: &Path) -> i32 {
    let mut number = None;
    until("it has written its number", || {
        number = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
        number.is_some()
    });
    number.unwrap()
}

fn class(pid: i32) -> SchedClass {
    Kernel::new().unwrap().class(pid).unwrap().class
}

fn begun(scene: &Scene, arguments: &[&str], command: &[&str]) -> Ours {
    let mut quell = scene.command(&[&["exec", "--measure", "0"], arguments, &["--"], command].concat());
    quell.stdout(Stdio::null()).stderr(Stdio::null());
    Ours::of(quell)
}

#[test]
fn an_agent_manages_a_command_for_as_long_as_exec_lasts() {
    if !is_root() {
        return;
    }
    let (scene, web) = (Scene::new(), Ours::sleeper());
    let mut agent = scene.agent(&web);
    let file = scene.run_dir().join("number");
    let mut exec = begun(&scene, &["--name", "db"], &["sh", "-c", &script(&scene, &file)]);
    let command = number(&file);
    assert_eq!(class(command), FIFO, "it begins when its policy is in force");
    let by = format!("root (process {})", exec.pid());
    until("it is the agent's", || scene.configured("db").is_some_and(|db| db["leased_by"] == *by));
    let own = scene.run_dir().join(format!("exec-{}.sock", exec.pid()));
    assert!(!own.exists() && exec.class() != FIFO, "exec is no agent of its own, and is not managed itself");
    assert!(out(&scene.quell(&["why", "db"])).contains("SCHED_FIFO 1"));

    let worker = scene.status().unwrap()["agent"]["pid"].as_i64().unwrap();
    send(worker as i32, Signal::KILL);
    let is_back = |status: serde_json::Value| {
        let mut configured = status["configured"].as_array().unwrap().iter();
        status["agent"]["pid"] != worker && configured.any(|db| db["name"] == "db" && db["state"] == "attached")
    };
    until("the next worker has it, too", || scene.status().is_some_and(is_back));
    until("and sets it", || class(command) == FIFO);

    exec.end(Signal::KILL);
    until("what it had set is put back", || class(command) != FIFO);
    until("and its lease is over", || scene.configured("db").is_none());
    assert_eq!(web.class(), FIFO);
    send(command, Signal::KILL);
    agent.end(Signal::TERM);
}

#[test]
fn what_outlives_the_command_is_the_agents_until_ctrl_c() {
    if !is_root() {
        return;
    }
    let (scene, web) = (Scene::new(), Ours::sleeper());
    let _agent = scene.agent(&web);
    let file = scene.run_dir().join("number");
    // Its parent ends at once: the agent may never have had a look at the two as parent and child.
    let daemon = format!("(setsid sh -c '{}' &); exit 4", script(&scene, &file));
    let mut exec = begun(&scene, &["--name", "db"], &["sh", "-c", &daemon]);
    let daemon = number(&file);
    until("the daemon is managed", || class(daemon) == FIFO);
    send(exec.pid(), Signal::INT);
    assert_eq!(exec.0.wait().unwrap().code(), Some(4));
    until("it is put back, and goes on", || class(daemon) != FIFO);
    send(daemon, Signal::KILL);
}

#[test]
fn what_the_agent_refuses_is_said_in_a_line_and_nothing_is_executed() {
    if !is_root() {
        return;
    }
    let (scene, web) = (Scene::new(), Ours::sleeper());
    let _agent = scene.agent(&web);
    let made = scene.run_dir().join("made");
    for (arguments, parts) in [
        (&["--limit", "0.5"][..], &["--limit 0.5", "systemd-run"][..]),
        (&["--policy", "caladan"], &["'caladan' grants CPUs", "guard"]),
        (&["--name", "web"], &["'web' is already defined", "another name"]),
    ] {
        let words = [&["exec"], arguments, &["--", "touch", made.to_str().unwrap()]].concat();
        let refused = scene.quell(&words);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!((refused.status.code(), said.lines().count()), (Some(125), 1), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)) && !made.exists(), "{said}");
    }
    let done = scene.quell(&["exec", "--be", "--name", "batch", "--", "sh", "-c", "exit 3"]);
    assert_eq!(done.status.code(), Some(3), "{done:?}");
}
