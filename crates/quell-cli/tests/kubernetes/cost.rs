//! What an agent takes that observes a node of 250 containers, with attribution: CPU time and memory.
//!
//! The test runs itself in the guest, where it plays the runtime: 250 real ones would take a guest of many GB.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nri::{Container, FakeConnection, FakeRuntime, LinuxContainer, LinuxPodSandbox, PodSandbox};
use quell_guest::testing::Script;
use quell_guest::{Lockstep, Machine};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The part that a process of this test binary has.
const PART: &str = "QUELL_TEST_PART";
/// The variable with the path of an optimised program, which is measured in place of the one under test.
const PROGRAM: &str = "QUELL_PROGRAM";
const NAME: &str = "cost::observing_250_containers_takes_a_hundredth_of_a_cpu";

const CONTAINERS: usize = 250;
/// Million instructions a second: a slow CPU of today.
const MIPS: u32 = 2000;
const MEASURED: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
#[ignore = "a guest: make test-kubernetes; QUELL_PROGRAM measures an optimised program"]
fn observing_250_containers_takes_a_hundredth_of_a_cpu() {
    match std::env::var(PART).as_deref() {
        Ok("node") => node(),
        // A container's process: it wakes up a hundred times a second.
        Ok("waker") => loop {
            std::thread::sleep(Duration::from_millis(10));
        },
        _ => outside(),
    }
}

fn outside() {
    let program = std::env::var_os(PROGRAM).map_or_else(|| env!("CARGO_BIN_EXE_quell").into(), PathBuf::from);
    let is_optimised = std::env::var_os(PROGRAM).is_some();
    let own = std::env::current_exe().unwrap();
    let lockstep = Lockstep { serial: false, mips: MIPS, quantum_ns: 50_000 };
    let machine = Machine { memory_mib: Some(2048), ..Machine::measuring(2, lockstep, Vec::new()) };
    let text = format!(
        "echo '+cpu +cpuset +memory' > /sys/fs/cgroup/cgroup.subtree_control\n\
         {PART}=node {PROGRAM}=\"$QUELL\" TMPDIR=/run \"$TEST\" --ignored --exact --nocapture {NAME}\n"
    );
    let script = Script::new(machine, Duration::from_secs(1200), &text).with("QUELL", &program).with("TEST", &own);
    let said = script.packed([program.to_str().unwrap(), own.to_str().unwrap()]).run();
    println!("{}\n{}", said.out, said.err);
    assert_eq!(said.status, 0);
    let found = said.out.lines().find_map(|line| line.split_once("takes ")).expect("a line of results").1;
    let numbers: Vec<f64> = found.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [per_cent, mb] = numbers[..] else { panic!("{found}") };
    assert!(mb <= if is_optimised { 40.0 } else { 80.0 }, "{found}");
    assert!(per_cent <= if is_optimised { 1.0 } else { 10.0 }, "{found}");
}

/// In the guest: a node with its containers, and the agent.
fn node() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nri.sock");
    let runtime = FakeRuntime::listen(&socket).unwrap();
    let configuration = directory.path().join("quell.toml");
    std::fs::write(&configuration, format!("[kubernetes]\nsocket = \"{}\"\n", socket.display())).unwrap();
    let program = std::env::var_os(PROGRAM).unwrap();
    let run = directory.path().join("run");
    let mut agent = Command::new(&program);
    agent.arg("run").arg("--config").arg(configuration).arg("--run-dir").arg(&run).stdin(Stdio::null());
    let mut agent = agent.spawn().unwrap();
    let mut connection = runtime.accept(&[], &[]).unwrap();
    let mut containers: Vec<Child> = (0..CONTAINERS).map(|number| start(&mut connection, number)).collect();
    let status = || -> Option<Value> {
        let mut command = Command::new(&program);
        let output = command.args(["status", "--json", "--socket"]).arg(run.join("api.sock")).output().unwrap();
        serde_json::from_slice(output.stdout.split(|byte| *byte == b'\n').next()?).ok()
    };
    let attached = || {
        let status = status()?;
        Some(status["configured"].as_array()?.iter().filter(|it| it["state"] == "attached").count())
    };
    let begun = Instant::now();
    while attached() != Some(CONTAINERS) {
        assert!(begun.elapsed() < PATIENCE, "{:?} of {CONTAINERS} are attached", attached());
        std::thread::sleep(Duration::from_millis(500));
    }
    // What comes once: attribution loads its program, and the first scans.
    std::thread::sleep(Duration::from_secs(10));
    let processes = processes_of(&agent);
    let turns = || status().unwrap()["turns"].as_u64();
    let turns_before = turns();
    let (begun, before) = (Instant::now(), cpu_times(&processes));
    std::thread::sleep(MEASURED);
    let part = |ns: u64| 100.0 * ns as f64 / begun.elapsed().as_nanos() as f64;
    let after = cpu_times(&processes);
    let mut used = 0.0;
    for (name, time) in after {
        let of = part(time - before.get(&name).copied().unwrap_or(0));
        println!("{name}: {of:.2} %");
        used += of;
    }
    println!("turns: {turns_before:?} to {:?}", turns());
    println!("attribution: {}", status().unwrap()["agent"]["attribution"]);
    println!("an agent that observes takes {used:.2} % of a CPU, {:.1} MB", memory(&processes));
    kill_process(Pid::from_child(&agent), Signal::TERM).unwrap();
    assert!(agent.wait().unwrap().success());
    for child in &mut containers {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// A pod with one container; of ten, one wakes up often.
fn start(runtime: &mut FakeConnection, number: usize) -> Child {
    let cgroup_parent = format!("/kubepods/burstable/pod{number}");
    let cgroups_path = format!("{cgroup_parent}/main{number}");
    let linux = Some(LinuxPodSandbox { cgroup_parent, ..LinuxPodSandbox::default() });
    let text = |name: &str| format!("{name}{number}");
    let pod = PodSandbox {
        id: text("sandbox"),
        name: text("web"),
        uid: number.to_string(),
        namespace: "shop".into(),
        linux,
        ..PodSandbox::default()
    };
    let linux = Some(LinuxContainer { cgroups_path: cgroups_path.clone(), ..LinuxContainer::default() });
    let main = Container {
        id: text("main"),
        pod_sandbox_id: pod.id.clone(),
        name: "main".into(),
        linux,
        ..Container::default()
    };
    runtime.event("RunPodSandbox", &pod, None).unwrap();
    runtime.create(&pod, &main).unwrap();
    let cgroup = Path::new("/sys/fs/cgroup").join(&cgroups_path[1..]);
    std::fs::create_dir_all(&cgroup).unwrap();
    for above in cgroup.ancestors().skip(1).take(3).collect::<Vec<_>>().into_iter().rev() {
        std::fs::write(above.join("cgroup.subtree_control"), "+cpu +cpuset +memory").unwrap();
    }
    let mut command = match number % 10 {
        0 => Command::new(std::env::current_exe().unwrap()),
        _ => Command::new("sleep"),
    };
    match number % 10 {
        0 => command.env(PART, "waker").args(["--ignored", "--exact", NAME]),
        _ => command.arg("3600"),
    };
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    std::fs::write(cgroup.join("cgroup.procs"), child.id().to_string()).unwrap();
    runtime.event("StartContainer", &pod, Some(&main)).unwrap();
    child
}

/// The guardian and its worker.
fn processes_of(agent: &Child) -> Vec<u32> {
    let own = agent.id();
    let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap();
    [own].into_iter().chain(children.split_whitespace().map(|pid| pid.parse().unwrap())).collect()
}

/// CPU time of their threads by name, in nanoseconds.
fn cpu_times(processes: &[u32]) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for pid in processes {
        for thread in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let read = |name| std::fs::read_to_string(thread.as_ref().unwrap().path().join(name)).unwrap();
            // The first number is the time on CPUs.
            let time: u64 = read("schedstat").split(' ').next().unwrap().parse().unwrap();
            *times.entry(read("comm").trim_end().to_owned()).or_default() += time;
        }
    }
    times
}

/// Their memory, what they share counted once, in MB.
fn memory(processes: &[u32]) -> f64 {
    let of = |pid: &u32| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    processes.iter().map(of).sum::<u64>() as f64 * 1024.0 / 1e6
}
