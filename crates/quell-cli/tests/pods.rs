//! `quell run` with a part in Kubernetes, beside a runtime that the test plays: as `kubectl`'s user meets it.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nri::{
    Container, FakeConnection, FakeRuntime, LinuxContainer, LinuxCpu, LinuxPodSandbox, LinuxResources, PodSandbox,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Much longer than anything takes, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        // Its worker ends by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A configuration, a run directory and a runtime.
struct Scene {
    directory: TempDir,
    runtime: FakeRuntime,
}

impl Scene {
    fn new(mode: &str) -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nri.sock");
        let runtime = FakeRuntime::listen(&socket).unwrap();
        let text = format!("[kubernetes]\nmode = \"{mode}\"\nsocket = \"{}\"\n", socket.display());
        std::fs::write(directory.path().join("quell.toml"), text).unwrap();
        Scene { directory, runtime }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn start(&self) -> Agent {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.args(["run", "--config"]).arg(self.path("quell.toml")).arg("--run-dir").arg(self.path("run"));
        Agent(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.args(arguments).arg("--socket").arg(self.path("run/api.sock")).output().unwrap()
    }

    fn status(&self) -> Option<Value> {
        let answer = self.ask(&["status", "--json"]);
        serde_json::from_slice(answer.stdout.split(|byte| *byte == b'\n').next()?).ok()
    }

    fn connect(&self) -> FakeConnection {
        self.runtime.accept(&[], &[]).unwrap()
    }
}

fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Has the hierarchy that the agent uses CPU sets?
fn has_cpusets() -> bool {
    let controllers = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    controllers.split_whitespace().any(|name| name == "cpuset")
}

fn pod(name: &str, labels: &[(&str, &str)]) -> PodSandbox {
    let uid = format!("{name}-{}", std::process::id());
    PodSandbox {
        id: format!("sandbox-{name}"),
        name: name.into(),
        namespace: "shop".into(),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        linux: Some(LinuxPodSandbox { cgroup_parent: format!("/kubepods/pod{uid}"), ..LinuxPodSandbox::default() }),
        uid,
        ..PodSandbox::default()
    }
}

fn container(of: &PodSandbox, millis: u64) -> Container {
    let cpu = LinuxCpu {
        shares: Some(millis * 1024 / 1000),
        quota: Some((millis * 100) as i64),
        period: Some(100_000),
        ..LinuxCpu::default()
    };
    let id = format!("main-of-{}", of.name);
    let cgroups_path = format!("{}/{id}", of.linux.as_ref().unwrap().cgroup_parent);
    let resources = Some(LinuxResources { cpu: Some(cpu), ..LinuxResources::default() });
    let linux = Some(LinuxContainer { cgroups_path, resources, ..LinuxContainer::default() });
    Container { id, pod_sandbox_id: of.id.clone(), name: "main".into(), linux, ..Container::default() }
}

#[test]
fn the_nodes_pods_are_shown_and_a_killed_worker_connects_again() {
    let scene = Scene::new("observe");
    let agent = scene.start();
    let mut runtime = scene.connect();
    assert_eq!(runtime.plugin, ("quell".to_owned(), "50".to_owned()));
    let db = pod("db", &[("quell.dev/reservation", "strict")]);
    let main = container(&db, 1000);
    runtime.event("RunPodSandbox", &db, None).unwrap();
    let created = runtime.create(&db, &main).unwrap();
    assert!(created.adjust.linux.is_none() && created.update.is_empty(), "observing: {created:?}");
    runtime.event("StartContainer", &db, Some(&main)).unwrap();
    let status = until("the pod is shown", || scene.status().filter(|it| it["kubernetes"]["pods"][0].is_object()));
    assert_eq!(status["kubernetes"]["pods"][0]["workload"], "shop/db");
    let text = String::from_utf8(scene.ask(&["status", "--pods"]).stdout).unwrap();
    assert!(text.contains("1 pods run") && text.contains("observing") && text.contains("fake v1"), "{text}");
    let configured = until("it is a workload", || {
        let status = scene.status()?;
        status["configured"].as_array()?.iter().find(|it| it["name"] == "shop/db").cloned()
    });
    assert!(configured["leased_by"].is_null(), "{configured}");
    let worker = until("it has a worker", || {
        let pid = agent.0.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.split_whitespace().next()?.parse().ok()
    });
    kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
    let mut runtime = scene.connect();
    runtime.event("RemovePodSandbox", &db, None).unwrap();
    until("the next one shows no pod", || {
        scene.status().filter(|it| it["kubernetes"]["pods"].as_array().is_some_and(Vec::is_empty))
    });
}

#[test]
fn more_than_is_left_is_refused_as_the_pods_events_show_it() {
    let scene = Scene::new("enforce");
    let agent = scene.start();
    let mut runtime = scene.connect();
    let big = pod("big", &[("quell.dev/reservation", "strict")]);
    let created = runtime.create(&big, &container(&big, 1_000_000));
    if !has_cpusets() {
        assert!(created.unwrap().adjust.linux.is_none(), "without CPU sets nothing is reserved");
        let text = String::from_utf8(scene.ask(&["status", "--pods"]).stdout).unwrap();
        assert!(text.contains("cgroup v2 has no cpuset controller here"), "{text}");
        return;
    }
    let why = created.unwrap_err();
    assert!(why.starts_with("quell: ") && why.contains("1000") && why.contains("; "), "{why}");
    let half = pod("half", &[("quell.dev/reservation", "strict")]);
    let why = runtime.create(&half, &container(&half, 500)).unwrap_err();
    assert!(why.contains("request"), "{why}");
    kill_process(Pid::from_raw(agent.0.id() as i32).unwrap(), Signal::TERM).unwrap();
    let begun = Instant::now();
    let mut agent = agent;
    while agent.0.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!scene.path("run/agent.journal.pods").exists(), "no journal is left");
}

#[test]
fn without_a_runtime_the_agent_works_and_says_what_is_missing() {
    let scene = Scene::new("observe");
    std::fs::remove_file(scene.path("nri.sock")).unwrap();
    let _agent = scene.start();
    let status = until("it says so", || scene.status().filter(|it| it["kubernetes"]["not_connected"].is_string()));
    let why = status["kubernetes"]["not_connected"].as_str().unwrap();
    assert!(why.contains("nri.sock"), "{why}");
}

#[test]
fn in_a_cgroup_namespace_of_its_own_it_joins_that_of_process_1() {
    if std::fs::read_link("/proc/1/ns/cgroup").is_err() {
        eprintln!("not tested here: process 1 may not be looked at");
        return;
    }
    let scene = Scene::new("observe");
    let mut command = Command::new("unshare");
    command.args(["--cgroup", "--", env!("CARGO_BIN_EXE_quell"), "run", "--config"]).arg(scene.path("quell.toml"));
    command.arg("--run-dir").arg(scene.path("run")).stdin(Stdio::null()).stdout(Stdio::null());
    let agent = Agent(command.spawn().unwrap());
    let _runtime = scene.connect();
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/cgroup")).unwrap();
    until("it is in that of process 1", || (of(&agent.0.id().to_string()) == of("1")).then_some(()));
}
