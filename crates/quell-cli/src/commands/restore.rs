//! `quell restore`: puts back what a killed agent or command left behind.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use quell_agent::guardian::{Report, RunDir, Stale, put_back_journal};
use quell_linux::Roots;
use serde_json::json;

/// Put back everything that Quell changed and no living Quell watches over
///
/// Reads the journals in the run directory. Only what still has the value that Quell wrote is put back; what somebody
/// else changed since is named and left. There is nothing to do unless guardian and worker were killed at once: each
/// puts everything back when the other dies. The systemd unit calls this when the service has ended.
#[derive(Args)]
pub struct Arguments {
    /// The run directory [default: QUELL_RUN_DIR, or /run/quell]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Puts back.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let directory = RunDir::locate(arguments.run_dir.as_deref())?;
    let mut total = Report::default();
    let mut alive = Vec::new();
    for journal in directory.journals()? {
        match journal {
            Stale::Ours(claim) => {
                total.add(put_back_journal(&claim.journal(), &Roots::default())?);
                claim.clear();
            }
            Stale::Held { name, pid } => alive.push((name, pid)),
        }
    }
    if arguments.json {
        println!("{:#}", json!({ "report": total, "alive": alive }));
    } else {
        tell(&total, &alive);
    }
    Ok(if total.left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell(total: &Report, alive: &[(String, Option<i32>)]) {
    for (name, pid) in alive {
        let pid = pid.map_or("?".into(), |pid| pid.to_string());
        println!("'{name}' is at work (process {pid}): what it changed it puts back by itself");
    }
    for write in &total.restored {
        println!("{}: {} again (was {})", write.place, write.after, write.before);
    }
    for left in &total.left {
        eprintln!("quell: {} stays {}: {}", left.place, left.now, left.why);
    }
    if *total == Report::default() {
        println!("nothing to put back");
    } else {
        println!("{}", total.summary());
    }
}
