//! What workloads wait for, as the user of a running agent sees it. Two processes of ours never stop wanting the same CPU: one waits
//! for the other, and for whatever else the machine runs there.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Much longer than anything takes, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// CAP_PERFMON, CAP_BPF (capabilities(7)).
const TRACING: [u32; 2] = [38, 39];

struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that spins on the last CPU.
fn spinner() -> Ours {
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]).process_group(0).stdin(Stdio::null());
    let child = command.spawn().unwrap();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpus - 1);
    rustix::thread::sched_setaffinity(rustix::process::Pid::from_raw(child.id() as i32), &set).unwrap();
    Ours(child)
}

struct Scene {
    directory: TempDir,
    _parts: [Ours; 2],
    _agent: Ours,
}

impl Scene {
    /// `more` is of the configuration; the agent has no right to trace if it may not.
    fn new(more: &str, may_trace: bool) -> Option<Scene> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not tested here: needs root");
            return None;
        }
        let (directory, parts) = (tempfile::tempdir().unwrap(), [spinner(), spinner()]);
        let [web, batch] = [0, 1].map(|at: usize| parts[at].0.id());
        let text = format!(
            "{more}\n[metrics]\nsocket = \"{}\"\n[[policy]]\nname = \"none\"\n[[workload]]\nname = \"web\"\nclass = \"lc\"\n\
             match = [{{ pid = {web} }}]\n[[workload]]\nname = \"batch\"\nclass = \"be\"\nmatch = [{{ pid = {batch} }}]\n",
            directory.path().join("metrics.sock").display()
        );
        std::fs::write(directory.path().join("quell.toml"), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.arg("run").arg("--config").arg(directory.path().join("quell.toml"));
        command.arg("--run-dir").arg(directory.path().join("run")).stdin(Stdio::null()).stdout(Stdio::null());
        command.env("QUELL_LOG", "warn").process_group(0);
        if !may_trace {
            let drop = || {
                for capability in TRACING {
                    // SAFETY: a system call without pointers.
                    if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            };
            // SAFETY: it makes nothing but system calls.
            unsafe { command.pre_exec(drop) };
        }
        Some(Scene { _agent: Ours(command.spawn().unwrap()), directory, _parts: parts })
    }

    fn quell(&self, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.args(arguments).arg("--socket").arg(self.directory.path().join("run/api.sock"));
        let output = command.output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    fn status(&self) -> Option<Value> {
        serde_json::from_str(&self.quell(&["status", "--json"])?).ok()
    }

    /// Waits for a status of which this holds, and gives what it found.
    fn until<T>(&self, what: &str, found: impl Fn(&Value) -> Option<T>) -> T {
        let begin = Instant::now();
        let mut last = None;
        while begin.elapsed() < PATIENCE {
            last = self.status();
            if let Some(found) = last.as_ref().and_then(&found) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("not within {PATIENCE:?}: {what}; last: {last:#?}")
    }
}

/// What the workload waited for, in the account or lately.
fn of<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    let workloads = status["workloads"].as_array()?;
    workloads.iter().find(|workload| workload["name"] == name).map(|workload| &workload["waited"])
}

fn time(of: &Value, cause: &str, by: &str) -> u64 {
    let lines = of["by"].as_array().into_iter().flatten();
    lines.filter(|line| line["cause"] == cause && line["by"] == by).filter_map(|line| line["waited_ns"].as_u64()).sum()
}

fn may_trace() -> bool {
    std::path::Path::new("/sys/kernel/btf/vmlinux").exists()
        && std::fs::read_link("/proc/self/ns/pid").unwrap().as_os_str() == "pid:[4026531836]"
}

#[test]
fn a_service_that_waits_for_a_workload_is_shown_so_everywhere() {
    if !may_trace() {
        return eprintln!("not tested here: the kernel allows no tracing");
    }
    // More than usual: the machine that tests is busy, and nothing here is about the bound.
    let Some(scene) = Scene::new("[attribution]\ncost = 0.1", true) else { return };
    let before = scene.until("the account blames the batch job", |status| {
        let waited = of(status, "web")?;
        let blamed = time(waited, "workload", "batch");
        // Nothing else of this machine is the batch job: it runs about as long as the service.
        (blamed > 300_000_000).then(|| waited.clone())
    });
    let (waited, unsettled) = (before["waited_ns"].as_u64().unwrap(), before["unsettled_ns"].as_u64().unwrap());
    let settled: u64 = before["by"].as_array().unwrap().iter().filter_map(|line| line["waited_ns"].as_u64()).sum();
    assert_eq!(settled + unsettled, waited, "{before}");
    let others = before["by"].as_array().unwrap().iter().filter(|line| line["cause"] == "workload");
    assert!(others.map(|line| &line["by"]).all(|by| by == "batch"), "{before}");
    let (text, why) = (scene.quell(&["status"]).unwrap(), scene.quell(&["why", "web"]).unwrap());
    assert!(text.contains("web waited ") && text.contains(" of the last "), "{text}");
    assert!(why.contains("since the agent found it, it waited for: ") && why.contains(" batch"), "{why}");
    let output = Command::new("curl")
        .args(["--silent", "--unix-socket"])
        .arg(scene.directory.path().join("metrics.sock"))
        .arg("http://quell/metrics")
        .output();
    if let Ok(output) = output {
        let metrics = String::from_utf8(output.stdout).unwrap();
        let line = "quell_workload_waited_seconds_total{workload=\"web\",cause=\"workload\",by=\"batch\"} ";
        assert!(metrics.lines().any(|it| it.starts_with(line)), "{metrics}");
        assert!(metrics.contains("quell_attribution_cost_seconds_total "), "{metrics}");
        assert!(metrics.contains("quell_workload_waited_for_others_seconds_total{"), "{metrics}");
    }
    // What was named stays, and grows.
    let blamed = time(&before, "workload", "batch");
    scene.until("it grows", |status| (time(of(status, "web")?, "workload", "batch") > blamed).then_some(()));
    let agent = scene.until("its cost is known", |status| {
        let agent = status["agent"]["attribution"].clone();
        (agent["bursts"].as_u64()? > 0 && agent["cpu_seconds"].as_f64()? > 0.0).then_some(agent)
    });
    assert!(agent["cost_bound"] == 0.1, "{agent}");
}

#[test]
fn without_the_right_to_trace_all_is_unknown_and_the_reason_is_said() {
    let Some(scene) = Scene::new("", false) else { return };
    let waited = scene.until("it waits for what is unknown", |status| {
        let waited = of(status, "web")?;
        (time(waited, "unknown", "") > 300_000_000 && waited["lately"]["known"] == "unknown").then(|| waited.clone())
    });
    assert_eq!(waited["by"].as_array().unwrap().len(), 1, "{waited}");
    let agent = scene.until("the agent says why", |status| {
        let agent = status["agent"]["attribution"].clone();
        (agent["state"] == "unavailable").then_some(agent)
    });
    assert!(agent["why"].as_str().unwrap().contains("CAP_BPF"), "{agent}");
    let text = scene.quell(&["status"]).unwrap();
    assert!(text.contains("for what is unknown") && text.contains("what workloads wait for is unknown: "), "{text}");
}

#[test]
fn a_bound_that_pays_for_no_burst_is_kept_and_said() {
    if !may_trace() {
        return eprintln!("not tested here: the kernel allows no tracing");
    }
    let Some(scene) = Scene::new("[attribution]\ncost = 0.000001", true) else { return };
    let agent = scene.until("it is limited", |status| {
        let agent = status["agent"]["attribution"].clone();
        (agent["state"] == "limited").then_some(agent)
    });
    assert!(agent["bursts"] == 0 && agent["why"].as_str().unwrap().contains("attribution.cost"), "{agent}");
}

#[test]
fn attribution_that_is_off_measures_nothing() {
    let Some(scene) = Scene::new("[attribution]\nenabled = false", true) else { return };
    scene.until("it is attached", |status| {
        let attached = status["workloads"].as_array()?.iter().find(|workload| workload["name"] == "web")?;
        assert!(attached["waited"].is_null() && status["agent"]["attribution"].is_null());
        Some(())
    });
}
