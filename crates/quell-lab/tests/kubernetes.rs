//! The closed loop: kwok's nodes, the real scheduler and controllers, Quell's controller, and simulated contention behind them.

use std::path::Path;
use std::process::{Command, Stdio};

use quell_control_plane::{Part, Plane, Running, output};
use serde_json::Value;

/// Simulated seconds a second.
const SPEED: f64 = 15.0;

/// A scenario with this many nodes, fifteen pods on each: services beside work that changes, comes and goes. Owners make them in no order:
/// a scheduler that counts requests then mixes them by chance.
fn scenario(nodes: u32, lasts: &str) -> String {
    let shipped = include_str!("../../quell-cluster-sim/scenarios/hundred-hosts.toml");
    let text = shipped.replace("lasts = \"1h\"", &format!("lasts = \"{lasts}\""));
    let head = text.split("[[workloads]]").next().unwrap().replace("count = 100\n", &format!("count = {nodes}\n"));
    let kinds = [("memcached", 2), ("masstree", 1), ("changing", 4), ("streams", 7), ("computes", 1)];
    let mut all: Vec<&str> = kinds.iter().flat_map(|(kind, number)| vec![*kind; (number * nodes) as usize]).collect();
    let mut seed = 7_u64;
    for at in (1..all.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all.swap(at, (seed >> 33) as usize % (at + 1));
    }
    let group = |kind: &&str| {
        let stays = if *kind == "streams" { "stays = \"30min\"\n" } else { "" };
        format!("[[workloads]]\nkind = \"{kind}\"\ncount = 1\n{stays}")
    };
    let more =
        format!("[[workloads]]\nkind = \"streams\"\nevery = \"{}ms\"\nstays = \"30min\"\n", 1_800_000 / (7 * nodes));
    head + &all.iter().map(group).collect::<String>() + &more
}

struct Ran {
    summary: Value,
    status: Value,
}

fn program(name: &str) -> std::path::PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_quell-lab")).with_file_name(name);
    assert!(path.exists(), "{} is missing: cargo build --locked -p quell-cluster", path.display());
    path
}

/// One run of the scenario; None: a program is missing.
fn run(file: &Path, policy: Option<&str>) -> Option<Ran> {
    let plane = Plane::start(&[Part::Scheduler, Part::Controllers, Part::Kwok])?;
    plane.namespaces(&["quell"]);
    let own = plane.at("one");
    let controller = policy.map(|policy| {
        let mut command = Command::new(program("quell-cluster"));
        command.env("KUBECONFIG", plane.at("admin")).args(["run", "--driver", "kubernetes", "--mode", "act"]);
        // As much shorter as time is faster.
        command.args(["--interval", "2", "--cool-down", "40", "--per-hour", "30", "--per-namespace", "1000"]);
        command.args(["--policy", policy, "--identity", "one", "--dir"]).arg(&own);
        let log = std::fs::File::create(plane.at("quell.log")).unwrap();
        Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    });
    let mut lab = Command::new(env!("CARGO_BIN_EXE_quell-lab"));
    lab.env("KUBECONFIG", plane.at("admin")).args(["cluster", "fake-nodes"]).arg(file);
    let ended = output(lab.args(["--json", "--speed", &SPEED.to_string()]));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let status = match &controller {
        None => Value::Null,
        Some(_) => {
            let asked = output(Command::new(program("quell-cluster")).args(["status", "--json", "--dir"]).arg(&own));
            serde_json::from_slice(&asked.stdout).unwrap()
        }
    };
    Some(Ran { summary: serde_json::from_slice(&ended.stdout).unwrap(), status })
}

#[test]
#[ignore = "programs of Kubernetes, and minutes: make test-kubernetes"]
fn contention_goes_down_under_a_real_scheduler() {
    let number = |name: &str, default: u32| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (nodes, minutes) = (number("QUELL_LOOP_NODES", 20), number("QUELL_LOOP_MINUTES", 20));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, scenario(nodes, &format!("{minutes}min"))).unwrap();
    println!("{nodes} nodes, {} pods, {minutes} min simulated {SPEED} times as fast as the clock", nodes * 15);
    let mut runs = Vec::new();
    for (name, policy) in [
        ("default scheduler", None),
        ("taints only", Some("marks")),
        ("taints and moves", Some("moves")),
        ("SDC as published", Some("published")),
    ] {
        let Some(ran) = run(&file, policy) else { return };
        let (of, status) = (&ran.summary, &ran.status);
        println!(
            "{name:18} {:6.1} min beyond SLO, {:6.2} h of best-effort work, {:5.1} min waiting, {} evicted, {} of {} helped",
            of["violated_minutes"].as_f64().unwrap(),
            of["best_effort_hours"].as_f64().unwrap(),
            of["waiting_minutes"].as_f64().unwrap(),
            status["counts"]["evicted"],
            status["judged"][1],
            status["judged"][0],
        );
        runs.push(ran);
    }
    let minutes = |at: usize| runs[at].summary["violated_minutes"].as_f64().unwrap();
    let work = |at: usize| runs[at].summary["best_effort_hours"].as_f64().unwrap();
    assert!(minutes(0) > 1.0, "nothing to improve");
    // What it reaches is in notebook/: here, that moves under a real scheduler help at all, and cost no work.
    assert!(minutes(2) < minutes(0) && work(2) > 0.95 * work(0), "moves: {} of {}", minutes(2), minutes(0));
}
