//! `quell run` as its user meets it, on processes of the test's own.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Much longer than anything takes, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with the test.
struct Ours(Child);

impl Ours {
    /// Sleeps; its command line holds the word.
    fn sleeper(word: &str) -> Ours {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do sleep 0.2; done", word]).stdin(Stdio::null());
        Ours::on_its_own(command)
    }

    /// This many threads that spin for as long as it lives; its command line holds the word.
    fn spinner(word: &str, threads: usize) -> Ours {
        let others = "(while kill -0 $$; do :; done) & ".repeat(threads - 1);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{others}while :; do :; done"), word]).stdin(Stdio::null()).stderr(Stdio::null());
        Ours::on_its_own(command)
    }

    /// In a process group of its own: a guardian takes what is in a dead worker's group for orphans of those that it managed,
    /// and here several agents run at once.
    fn on_its_own(mut command: Command) -> Ours {
        Ours(command.process_group(0).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.0.id() as i32).unwrap(), signal).unwrap();
    }

    /// Is it stopped?
    fn is_paused(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    }

    fn child(&self) -> i32 {
        let pid = self.0.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.split_whitespace().next().expect("it has a child").parse().unwrap()
    }

    /// The CPUs that it may use, as the kernel lists them.
    fn cpus(&self) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A configuration, a run directory and words that no other process's command line holds.
struct Scene {
    directory: TempDir,
    token: String,
}

impl Scene {
    fn new(name: &str) -> Scene {
        Scene { directory: tempfile::tempdir().unwrap(), token: format!("quell-{name}-{}", std::process::id()) }
    }

    fn word(&self, workload: &str) -> String {
        format!("{}-{workload}", self.token)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn configure(&self, policy: &str, workloads: &[(&str, &str)]) {
        let mut text = format!("machine.solo_runs.duty_per_mille = 500\n[[policy]]\nname = \"{policy}\"\n");
        for (name, more) in workloads {
            let (word, user) = (self.word(name), rustix::process::geteuid().as_raw());
            text += &format!(
                "[[workload]]\nname = \"{name}\"\n{more}\nmatch = [{{ command = \"{word}\", user = \"{user}\" }}]\n"
            );
        }
        std::fs::write(self.path("quell.toml"), text).unwrap();
    }

    fn run(&self, more: &[&str]) -> Ours {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.arg("run").arg("--config").arg(self.path("quell.toml")).arg("--run-dir").arg(self.path("run"));
        command.arg("--socket").arg(self.path("socket")).args(more).stdin(Stdio::null()).stdout(Stdio::null());
        Ours(command.env("QUELL_LOG", "warn").spawn().unwrap())
    }

    fn status(&self) -> Option<Value> {
        status(&self.path("socket"))
    }
}

fn status(socket: &Path) -> Option<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_quell")).args(["status", "--json", "--socket"]).arg(socket).output();
    serde_json::from_slice(&output.unwrap().stdout).ok()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const CRITICAL: &str = "class = \"lc\"\ncpus = 1\nreservation = \"strict\"";
const BATCH: &str = "class = \"be\"";

/// There are two CPUs, and classes and CPUs of other processes may be set.
fn may_manage() -> bool {
    let enough = std::thread::available_parallelism().is_ok_and(|count| count.get() >= 2);
    if !(enough && rustix::process::geteuid().is_root()) {
        eprintln!("not tested here: needs root and two CPUs");
        return false;
    }
    true
}

#[test]
fn a_shadow_answers_questions_and_changes_nothing() {
    let scene = Scene::new("shadow");
    let critical = Ours::sleeper(&scene.word("web"));
    let before = critical.cpus();
    scene.configure("rkube", &[("web", CRITICAL)]);
    let mut shadow = scene.run(&["--shadow"]);
    until("the shadow knows its workload", || {
        scene.status().is_some_and(|status| status["workloads"][0]["name"] == "web")
    });
    assert_eq!(scene.status().unwrap()["agent"]["mode"], "shadow");
    assert_eq!(critical.cpus(), before);
    shadow.signal(Signal::INT);
    assert!(shadow.0.wait().unwrap().success());
    assert!(!scene.path("socket").exists());
    assert_eq!(critical.cpus(), before);
}

fn quell(arguments: &[&str], more: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quell")).args(arguments).args(more).output().unwrap()
}

/// What it prints on standard output.
fn said(arguments: &[&str], more: &[&Path]) -> String {
    String::from_utf8_lossy(&quell(arguments, more).stdout).into_owned()
}

#[test]
fn a_service_that_is_down_waits_then_is_attached_then_gone_and_why_says_what_it_looks_for() {
    let scene = Scene::new("down");
    scene.configure("guard", &[("web", CRITICAL)]);
    let _shadow = scene.run(&["--shadow"]);
    let socket = scene.path("socket");
    let state = || scene.status().map(|status| status["configured"][0]["state"].clone());
    until("it waits", || state().is_some_and(|state| state == "waiting"));
    let why = said(&["why", "web", "--socket"], &[&socket]);
    assert!(why.contains("web (LC) is waiting") && why.contains(&scene.word("web")), "{why}");
    assert!(why.contains("start the program first"), "{why}");
    let status = said(&["status", "--socket"], &[&socket]);
    assert!(status.contains("waiting"), "{status}");
    let unknown = quell(&["why", "unknown", "--socket"], &[&socket]);
    let text = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(unknown.status.code() == Some(1) && text.contains("there are: web"), "{text}");

    let critical = Ours::sleeper(&scene.word("web"));
    until("it is attached", || said(&["status", "--socket"], &[&socket]).contains("attached ("));
    drop(critical);
    until("it is gone", || said(&["status", "--socket"], &[&socket]).contains("exited since "));
    let why = said(&["why", "web", "--socket"], &[&socket]);
    assert!(why.contains("exited since ") && why.contains("its selectors: "), "{why}");
}

#[test]
fn what_a_killed_pair_left_is_named_by_status_and_doctor_until_restore_has_put_it_back() {
    if !may_manage() {
        return;
    }
    let scene = Scene::new("left");
    let critical = Ours::sleeper(&scene.word("web"));
    let all = critical.cpus();
    scene.configure("rkube", &[("web", CRITICAL)]);
    let mut agent = scene.run(&[]);
    until("the reservation stands", || critical.cpus() != all);
    let (guardian, worker) = (agent.0.id() as i32, agent.child());
    // Neither may see the other's end.
    for signal in [Signal::STOP, Signal::KILL] {
        for pid in [guardian, worker] {
            kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        }
    }
    agent.0.wait().unwrap();
    // Its memory, and with it `exe`, goes before its files and their locks.
    until("the worker is dead", || {
        let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    });

    let (run, socket) = (scene.path("run"), scene.path("run/api.sock"));
    let fix = format!("quell restore --run-dir {}", run.display());
    let status = quell(&["status", "--socket"], &[&socket]);
    let text = String::from_utf8_lossy(&status.stderr).into_owned();
    assert_eq!(status.status.code(), Some(1));
    assert!(text.contains("a killed Quell left") && text.contains(&fix), "{text}");
    assert!(text.contains("no agent answers"), "{text}");
    let doctor = said(&["doctor", "none", "--run-dir"], &[&run]);
    assert!(doctor.contains("a killed Quell left") && doctor.contains(&fix), "{doctor}");

    // As of a `quell exec` that was killed before it set anything.
    std::fs::write(scene.path("run/exec-1.lock"), "").unwrap();
    // `status` takes a dead socket away, too; this one is new.
    let _ = std::fs::remove_file(&socket);
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let restored = quell(&["restore", "--run-dir"], &[&run]);
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    assert_eq!(critical.cpus(), all);
    assert!(!socket.exists() && !scene.path("run/exec-1.lock").exists(), "nothing is left behind");
    let text = String::from_utf8_lossy(&quell(&["status", "--socket"], &[&socket]).stderr).into_owned();
    assert!(!text.contains("killed"), "{text}");
}

#[test]
fn restore_refuses_a_directory_that_is_not_there() {
    let scene = Scene::new("nowhere");
    let nowhere = scene.path("nowhere");
    let refused = quell(&["restore", "--run-dir"], &[&nowhere]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("there is no such directory") && text.contains("--run-dir"), "{text}");
    assert!(!nowhere.exists(), "it was made");
}

#[test]
fn a_reload_keeps_what_stands_and_a_wrong_one_changes_nothing() {
    if !may_manage() {
        return;
    }
    let scene = Scene::new("reload");
    let (critical, batch) = (Ours::sleeper(&scene.word("web")), Ours::sleeper(&scene.word("video")));
    let all = critical.cpus();
    scene.configure("rkube", &[("web", CRITICAL)]);
    let mut agent = scene.run(&[]);
    until("the reservation stands", || critical.cpus() != all);
    let own = critical.cpus();
    assert_eq!(batch.cpus(), all, "it is not managed yet");

    scene.configure("rkube", &[("web", CRITICAL), ("video", BATCH)]);
    agent.signal(Signal::HUP);
    until("the new workload is confined", || {
        assert_eq!(critical.cpus(), own, "the reservation was dropped");
        batch.cpus() != all
    });
    let rest = batch.cpus();
    assert_ne!(rest, own);

    scene.configure("rkube", &[("web", "class = \"lc\"\ncpus = 1000"), ("video", "class = \"nonsense\"")]);
    agent.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((critical.cpus(), batch.cpus()), (own.clone(), rest), "a wrong configuration changed something");

    scene.configure("rkube", &[("web", CRITICAL)]);
    agent.signal(Signal::HUP);
    until("who is managed no more is put back", || batch.cpus() == all);
    assert_eq!(critical.cpus(), own);
    agent.signal(Signal::TERM);
    assert!(agent.0.wait().unwrap().success());
    assert_eq!(critical.cpus(), all);
}

#[test]
fn a_policy_that_grants_cpus_does_so_by_affinity_where_quells_own_scheduler_is_not() {
    if !may_manage() || Path::new("/sys/kernel/sched_ext").exists() {
        return;
    }
    let scene = Scene::new("affinity");
    // More threads than CPUs: some wait at every look, and so want to be granted the pool's only CPU.
    let batch = Ours::spinner(&scene.word("video"), 3);
    let (all, own) = (batch.cpus(), first_cpu());
    scene.configure("caladan", &[("web", CRITICAL), ("video", BATCH)]);
    let text = std::fs::read_to_string(scene.path("quell.toml")).unwrap();
    std::fs::write(scene.path("quell.toml"), format!("machine.cpus = \"{own}\"\n{text}")).unwrap();
    let check = Command::new(env!("CARGO_BIN_EXE_quell")).arg("check").arg(scene.path("quell.toml")).output().unwrap();
    let said = String::from_utf8_lossy(&check.stderr);
    if !check.status.success() && said.contains("queueing delay") {
        eprintln!("not tested here: {said}");
        return;
    }
    assert!(
        check.status.success() && said.contains("CPUs are granted by affinity, with policy guard beside"),
        "{said}"
    );

    let mut agent = scene.run(&[]);
    until("it is bound to the CPU that it was granted", || batch.cpus() == own);
    let status = scene.status().unwrap();
    assert_eq!(status["agent"]["host"], "affinity");
    agent.signal(Signal::TERM);
    assert!(agent.0.wait().unwrap().success());
    assert_eq!(batch.cpus(), all, "nothing is left behind");
}

/// The machine's first CPU.
fn first_cpu() -> String {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    online.trim().split(['-', ',']).next().unwrap().to_owned()
}

#[test]
fn a_killed_agent_leaves_nothing_paused() {
    if !may_manage() {
        return;
    }
    let scene = Scene::new("solo");
    let (_critical, batch) = (Ours::sleeper(&scene.word("web")), Ours::sleeper(&scene.word("video")));
    scene.configure("his", &[("web", CRITICAL), ("video", BATCH)]);
    let mut agent = scene.run(&[]);
    // The other may have ended meanwhile.
    let kill = |pid: i32| {
        let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
    };

    until("a solo run pauses the other", || batch.is_paused());
    kill(agent.child());
    until("the guardian lets it go on", || !batch.is_paused());

    until("the next worker begins a solo run", || batch.is_paused());
    let worker = agent.child();
    kill(agent.0.id() as i32);
    kill(worker);
    agent.0.wait().unwrap();
    // Its memory, and with it `exe`, goes before its files and their locks.
    until("the worker is dead", || {
        let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    });
    let mut restore = Command::new(env!("CARGO_BIN_EXE_quell"));
    let restore = restore.arg("restore").arg("--run-dir").arg(scene.path("run")).output().unwrap();
    assert!(restore.status.success(), "{}", String::from_utf8_lossy(&restore.stderr));
    assert!(!batch.is_paused());
}
