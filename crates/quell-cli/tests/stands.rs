//! What stands, as the user of a running agent sees it: overridden settings, a refused reload, `verify`, `off` and `on`.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use quell_linux::sched::{Kernel, ThreadCalls, ThreadClass};
use quell_model::SchedClass;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Much longer than anything takes, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with the test, in a group of its own.
struct Ours(Child);

impl Ours {
    fn of(mut command: Command) -> Ours {
        Ours(command.process_group(0).stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    fn class(&self) -> SchedClass {
        Kernel::new().unwrap().class(self.pid()).unwrap().class
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A service under `guard`, and its agent.
struct Scene {
    directory: TempDir,
    service: Ours,
    /// The service's class from before Quell.
    own: SchedClass,
    agent: Ours,
}

const FIFO: SchedClass = SchedClass::Fifo { priority: 1 };

impl Scene {
    /// None where the machine does not allow it.
    fn new() -> Option<Scene> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not tested here: needs root");
            return None;
        }
        let service = sleeper();
        let own = service.class();
        let scene = Scene::beside(service, own);
        until("the service is guarded", || scene.service.class() == FIFO);
        until("it is attached", || scene.status().is_some_and(|it| it["configured"][0]["state"] == "attached"));
        Some(scene)
    }

    /// An agent that is to guard this service.
    fn beside(service: Ours, own: SchedClass) -> Scene {
        let directory = tempfile::tempdir().unwrap();
        configure(directory.path(), service.pid(), "");
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.arg("run").arg("--config").arg(directory.path().join("quell.toml"));
        command.arg("--run-dir").arg(directory.path().join("run")).stdout(Stdio::null()).env("QUELL_LOG", "warn");
        Scene { agent: Ours::of(command), service, own, directory }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("run/api.sock")
    }

    fn quell(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.args(arguments).arg("--socket").arg(self.socket()).stdin(Stdio::null());
        command
    }

    fn status(&self) -> Option<Value> {
        serde_json::from_slice(&self.quell(&["status", "--json"]).stdout).ok()
    }

    fn ends(mut self) {
        self.agent.signal(Signal::TERM);
        assert!(self.agent.0.wait().unwrap().success());
        assert_eq!(self.service.class(), self.own);
    }
}

fn sleeper() -> Ours {
    let mut sleeper = Command::new("sleep");
    sleeper.arg("600");
    Ours::of(sleeper)
}

fn configure(directory: &Path, pid: i32, more: &str) {
    let text = format!(
        "[[policy]]\nname = \"guard\"\n[[workload]]\nname = \"web\"\nclass = \"lc\"\ncpus = 1\n{more}\n\
         match = [{{ pid = {pid} }}]\n"
    );
    std::fs::write(directory.join("quell.toml"), text).unwrap();
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_class_that_another_program_took_away_is_said_and_verify_answers_no_at_once() {
    let Some(scene) = Scene::new() else { return };
    let verified = scene.quell(&["verify"]);
    assert_eq!(verified.status.code(), Some(0), "{}", out(&verified));
    assert_eq!(out(&verified), "all settings are in force (1 workload, 1 thread)\n");

    Kernel::new().unwrap().set_class(scene.service.pid(), &ThreadClass::of(scene.own)).unwrap();
    let verified = scene.quell(&["verify"]);
    assert_eq!(verified.status.code(), Some(1), "{}", out(&verified));
    let instead = format!("{} instead of SCHED_FIFO 1", scene.own);
    let line = format!("! web: thread {} class: {instead}", scene.service.pid());
    assert!(out(&verified).starts_with(&line), "{}", out(&verified));

    until("status says so", || out(&scene.quell(&["status"])).contains("! overridden (1 of 1 thread)"));
    let status = scene.status().unwrap();
    assert_eq!(status["workloads"][0]["knobs"][0], instead);
    let why = out(&scene.quell(&["why", "web"]));
    assert!(why.contains(&instead) && why.contains("`quell on`"), "{why}");
    assert_eq!(scene.service.class(), scene.own, "Quell leaves it unchanged");

    assert!(scene.quell(&["off"]).status.success() && scene.quell(&["on"]).status.success());
    until("it is set again", || scene.service.class() == FIFO);
    until("and stands", || scene.quell(&["verify"]).status.success());
    scene.ends();
}

#[test]
fn off_puts_back_now_lasts_over_a_dead_worker_and_ends_with_on() {
    let Some(scene) = Scene::new() else { return };
    let off = scene.quell(&["off"]);
    assert!(off.status.success(), "{off:?}");
    assert_eq!(scene.service.class(), scene.own, "it is put back when the command ends");
    until("status says so", || out(&scene.quell(&["status"])).contains("! switched off since "));
    let by = scene.status().unwrap()["agent"]["off"]["by"][0].clone();
    assert!(by.as_str().unwrap().starts_with("root (process "), "{by}");
    let verified = scene.quell(&["verify"]);
    assert!(verified.status.code() == Some(1) && out(&verified).contains("switched off by root"), "{verified:?}");

    let worker = scene.status().unwrap()["agent"]["pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(worker as i32).unwrap(), Signal::KILL).unwrap();
    until("another worker answers", || {
        scene.status().is_some_and(|it| it["agent"]["pid"] != worker && it["configured"][0]["state"] == "attached")
    });
    assert!(scene.status().unwrap()["agent"]["off"].is_object(), "it is off as well");
    assert_eq!(scene.service.class(), scene.own);

    let on = scene.quell(&["on"]);
    assert!(on.status.success() && out(&on).starts_with("on: "), "{on:?}");
    until("everything is set again", || scene.service.class() == FIFO);
    assert!(scene.status().unwrap()["agent"]["off"].is_null());
    scene.ends();
}

#[test]
fn a_lease_ends_with_its_holder_however_that_ends() {
    let Some(scene) = Scene::new() else { return };
    for signal in [Signal::KILL, Signal::INT] {
        let mut command = scene.command(&["off", "--lease"]);
        command.stdout(Stdio::null());
        let mut holder = Ours::of(command);
        until("the agent is off", || scene.service.class() == scene.own);
        let on = scene.quell(&["on"]);
        let why = String::from_utf8_lossy(&on.stderr).into_owned();
        assert!(on.status.code() == Some(1) && why.contains("still off: root (process "), "the lease counts: {why}");
        assert_eq!(scene.status().unwrap()["agent"]["off"]["leased"], true);
        holder.signal(signal);
        holder.0.wait().unwrap();
        until("the agent is on again", || scene.service.class() == FIFO);
    }
    until("it says so", || scene.status().is_some_and(|it| it["agent"]["off"].is_null()));
    scene.ends();
}

#[test]
fn a_refused_reload_is_in_status_until_it_is_repaired() {
    let Some(scene) = Scene::new() else { return };
    configure(scene.directory.path(), scene.service.pid(), "reservation = \"nonsense\"");
    scene.agent.signal(Signal::HUP);
    let said = || out(&scene.quell(&["status"])).replace("\n  ", " ");
    until("status says so", || said().contains("! the configuration on disk is refused"));
    assert!(scene.status().unwrap()["agent"]["warnings"][0].as_str().unwrap().contains("quell.toml:"));
    assert_eq!(scene.service.class(), FIFO, "the previous one remains in force");
    configure(scene.directory.path(), scene.service.pid(), "");
    scene.agent.signal(Signal::HUP);
    until("it is repaired", || scene.status().is_some_and(|it| it["agent"]["warnings"] == serde_json::json!([])));
    scene.ends();
}

#[test]
fn what_is_set_on_a_workload_that_a_reload_brought_is_shown_and_what_was_put_back_is_not() {
    let Some(scene) = Scene::new() else { return };
    let others: Vec<Ours> = (0..2).map(|_| sleeper()).collect();
    let file = scene.directory.path().join("quell.toml");
    let shown = |scene: &Scene, name: &str| {
        let status = scene.status()?;
        let workloads = status["workloads"].as_array()?.clone();
        workloads.into_iter().find(|workload| workload["name"] == name).map(|workload| workload["knobs"].clone())
    };
    for (at, other) in others.iter().enumerate() {
        let name = format!("other{at}");
        let more = format!(
            "[[workload]]\nname = \"{name}\"\nclass = \"lc\"\ncpus = 0.1\nmatch = [{{ pid = {} }}]\n",
            other.pid()
        );
        std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + &more).unwrap();
        scene.agent.signal(Signal::HUP);
        until("it is guarded", || other.class() == FIFO);
        until("its row says so", || shown(&scene, &name) == Some(serde_json::json!(["SCHED_FIFO 1"])));
        // It does not go with the next glance.
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(shown(&scene, &name), Some(serde_json::json!(["SCHED_FIFO 1"])));
    }
    drop(others);
    let is_gone = |scene: &Scene| shown(scene, "other1").is_none_or(|knobs| knobs == serde_json::json!([]));
    until("what is gone has no settings", || is_gone(&scene));
    scene.ends();
}

#[test]
fn verify_without_an_agent_has_a_status_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("api.sock");
    let output = Command::new(env!("CARGO_BIN_EXE_quell")).args(["verify", "--socket"]).arg(socket).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no agent answers"));
}

#[test]
fn a_protect_that_ends_beside_an_agent_leaves_no_service_that_is_only_said_to_be_guarded() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested here: needs root");
        return;
    }
    let service = sleeper();
    let own = service.class();
    let run_dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
    command.args(["protect", "--policy", "guard", "--cpus", "1", "--measure", "0", &service.pid().to_string()]);
    command.env("QUELL_RUN_DIR", run_dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut protect = Ours::of(command);
    until("it is guarded", || service.class() == FIFO);
    let scene = Scene::beside(service, own);
    until("the agent has looked at it", || {
        scene.status().is_some_and(|it| ["attached", "refused"].iter().any(|s| it["configured"][0]["state"] == *s))
    });
    protect.signal(Signal::INT);
    protect.0.wait().unwrap();
    let is_claimed =
        |it: &Value| it["configured"][0]["state"] == "attached" && it["workloads"][0]["knobs"][0] == "SCHED_FIFO 1";
    until("what is said is so", || scene.service.class() == FIFO || scene.status().is_some_and(|it| !is_claimed(&it)));
    // Once more after the interval of the reads: it is no coincidence of the moment.
    std::thread::sleep(Duration::from_secs(6));
    until("what is said is so", || scene.service.class() == FIFO || scene.status().is_some_and(|it| !is_claimed(&it)));
    scene.ends();
}
