//! `quell-cluster run` and `status`: the control of a cluster in real time, and questions to it.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use clap::Args;
use quell_agent::AgentError;
use quell_agent::api::{Api, Client};
use quell_cluster::live::{Board, Driver as _, Simulated, Status, control};
use quell_cluster::policy::AnyClusterPolicy;
use quell_cluster::report::Told;
use quell_cluster::scenario::Scenario;
use quell_model::WorkloadId;
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};

/// The folder of a running cluster.
#[derive(Args, Clone, Debug)]
pub struct Folder {
    /// The folder with its socket and its journal [default: quell-cluster in $XDG_RUNTIME_DIR, else in /run].
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl Folder {
    fn path(&self) -> PathBuf {
        let default = || {
            let runtime = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/run"), PathBuf::from);
            runtime.join("quell-cluster")
        };
        self.dir.clone().unwrap_or_else(default)
    }

    fn socket(&self) -> PathBuf {
        self.path().join("api.sock")
    }

    fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T> {
        let socket = self.socket();
        match Client::new(&socket)?.get(path) {
            Err(AgentError::NoAgent { cause, .. }) => bail!(
                "no cluster answers at {}: {cause}; start one with `quell-cluster run SCENARIO`, or name its folder with --dir",
                socket.display()
            ),
            result => Ok(result?),
        }
    }
}

/// What is run.
pub struct Run<'a> {
    pub scenario: &'a Scenario,
    pub policy: &'a str,
    pub speed: f64,
    pub fresh: bool,
}

/// Controls the cluster until it is over or a signal comes.
pub fn run(what: &Run<'_>, folder: &Folder) -> Result<ExitCode> {
    let Run { scenario, policy: name, speed, fresh } = *what;
    if !(speed.is_finite() && speed > 0.0) {
        bail!("--speed {speed}: give a number above 0, such as 60 for a minute a second");
    }
    let policy = AnyClusterPolicy::named(name, scenario.seed)?;
    let path = folder.path();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .with_context(|| format!("making {}: name another folder with --dir", path.display()))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("listening to signals")?;
    }
    let journal = path.join("journal.jsonl");
    let (mut driver, found) = Simulated::open(&journal, scenario, (scenario.seed, speed), fresh, Arc::clone(&stop))?;
    let board = Board::new(&scenario.about, name, found);
    let api = Api::reading(&folder.socket(), answers(board.clone()))?;
    let how = if found { "found as it is by now" } else { "new" };
    println!("{} ({how}), under {name}, {speed} times as fast as the clock", scenario.about);
    println!("{}", ask(&path));
    control(&mut driver, policy, &stop, |driver, stack| board.show(driver, stack))?;
    drop(api);
    if driver.is_over() {
        fs::remove_file(&journal).with_context(|| format!("removing {}", journal.display()))?;
        println!("over: {} have passed", scenario.lasts);
    } else {
        println!("stopped; the cluster goes on: run it again to control it, or with --fresh to begin anew");
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(path: &Path) -> String {
    format!("ask it with `quell-cluster status --dir {0}` and `quell-cluster why WORKLOAD --dir {0}`", path.display())
}

fn answers(board: Board) -> impl Fn(&str) -> Option<Value> + Send + Sync + 'static {
    move |path: &str| match path.strip_prefix("/v1/")? {
        "status" => serde_json::to_value(board.status()).ok(),
        path => {
            let number = path.strip_prefix("workloads/")?.parse().ok()?;
            serde_json::to_value(board.told(WorkloadId(number))?).ok()
        }
    }
}

/// What a running cluster's controller tells of it.
pub fn status(folder: &Folder, json: bool) -> Result<ExitCode> {
    let status: Status = folder.get("/v1/status")?;
    if json {
        println!("{}", serde_json::to_string_pretty(&status)?);
        return Ok(ExitCode::SUCCESS);
    }
    let Status { about, policy, now, found, ready, not_ready, gone, placed, pending, moving, .. } = &status;
    println!("{about}\nunder {policy}, at {now}{}", if *found { ", found by this controller" } else { "" });
    println!("  hosts      {ready} ready, {not_ready} not ready, {gone} gone");
    println!(
        "  workloads  {placed} on hosts, {pending} waiting, {moving} moving; {} beyond their SLO",
        status.violated
    );
    println!("  moves      {} arrived, {} did not", status.arrived, status.failed);
    println!("  judged     {} moves, {} helped", status.judged.0, status.judged.1);
    Ok(ExitCode::SUCCESS)
}

/// What a running cluster's controller knows of a workload.
pub fn told(folder: &Folder, id: WorkloadId) -> Result<Told> {
    folder.get(&format!("/v1/workloads/{}", id.0))
}
