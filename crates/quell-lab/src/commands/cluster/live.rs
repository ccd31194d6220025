//! `quell-lab cluster live`: the control of a simulated cluster by the clock on the wall.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use clap::Args;
use quell_cluster::folder::Folder;
use quell_cluster::live::{Board, Driver as _, control};
use quell_cluster::policy::AnyClusterPolicy;
use quell_cluster_sim::live::Simulated;
use quell_cluster_sim::scenario::Scenario;
use quell_command::output::WrongCommandLine;
use quell_command::signals;

/// Control a simulated cluster in real time until its scenario ends; it continues without a controller, too
#[derive(Args)]
pub struct Arguments {
    /// A shipped scenario's name, or a file
    pub scenario: String,
    /// The policy
    #[arg(long, default_value = "sdc-global")]
    policy: String,
    /// Simulated seconds per second of real time
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// Start anew, even if a simulated cluster exists
    #[arg(long)]
    fresh: bool,
    /// The folder with its socket and its journal [default: quell-cluster in $XDG_RUNTIME_DIR, else in /run]
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Controls the cluster until it is over or a signal comes.
pub fn run(arguments: &Arguments, scenario: &Scenario) -> Result<ExitCode> {
    let Arguments { policy: name, speed, fresh, .. } = arguments;
    if !(speed.is_finite() && *speed > 0.0) {
        let wrong = format!("--speed {speed}: give a number above 0, such as 60 for a minute a second");
        bail!(WrongCommandLine(wrong));
    }
    let policy = AnyClusterPolicy::named(name, scenario.seed)?;
    let folder = Folder::new(arguments.dir.as_deref());
    folder.make()?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::set_on_interrupt(&stop)?;
    let journal = folder.path().join("journal.jsonl");
    let (mut driver, found) = Simulated::open(&journal, scenario, (scenario.seed, *speed), *fresh, Arc::clone(&stop))?;
    let board = Board::new(&scenario.about, name, found);
    let api = folder.serve(board.clone())?;
    let how = if found { "found as it is by now" } else { "new" };
    out!("{} ({how}), under {name}, {speed} times as fast as the clock", scenario.about);
    let path = folder.path().display();
    out!("ask it with `quell-cluster status --dir {path}` and `quell-cluster why WORKLOAD --dir {path}`");
    control(&mut driver, policy, &stop, |driver, stack, took| board.show(driver, stack, took))?;
    drop(api);
    if driver.is_over() {
        fs::remove_file(&journal).with_context(|| format!("removing {}", journal.display()))?;
        out!("over: {} have passed", scenario.lasts);
    } else {
        out!("stopped; the cluster goes on: run it again to control it, or with --fresh to begin anew");
    }
    Ok(ExitCode::SUCCESS)
}
