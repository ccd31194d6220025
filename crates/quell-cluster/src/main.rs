//! `quell-cluster`: asks the controller of a cluster.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use quell_cluster::folder::Folder;
use quell_cluster::live::Status;
use quell_model::WorkloadId;
use quell_report::screen::Screen;

/// Placement by contention over a cluster of hosts: asks the controller of one. Simulated clusters are `quell-lab cluster`'s.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Report hosts, workloads and moves
    Status {
        #[command(flatten)]
        asked: Asked,
    },
    /// Report where a workload is and which moves were made for it
    Why {
        /// The workload's number
        workload: u32,
        #[command(flatten)]
        asked: Asked,
    },
}

#[derive(Args)]
struct Asked {
    /// The folder with its socket [default: quell-cluster in $XDG_RUNTIME_DIR, else in /run]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    quell_command::main(Arguments::command(), &[], |matches| {
        execute(&Arguments::from_arg_matches(matches)?.command)?;
        Ok(ExitCode::SUCCESS)
    })
}

fn execute(command: &Command) -> Result<()> {
    let text = match command {
        Command::Status { asked } => {
            let status = Folder::new(asked.dir.as_deref()).status()?;
            if asked.json { serde_json::to_string_pretty(&status)? } else { text_of(&status) }
        }
        Command::Why { workload, asked } => {
            let report = Folder::new(asked.dir.as_deref()).workload(WorkloadId(*workload))?;
            if asked.json { serde_json::to_string_pretty(&report)? } else { report.text(&Screen::of_output()) }
        }
    };
    Ok(writeln!(io::stdout(), "{text}")?)
}

fn text_of(status: &Status) -> String {
    let Status { about, policy, now, found, ready, not_ready, gone, placed, pending, moving, .. } = status;
    let found = if *found { ", found by this controller" } else { "" };
    let (helped, judged) = (status.judged.1, status.judged.0);
    format!(
        "{about}\nunder {policy}, at {now}{found}
  hosts      {ready} ready, {not_ready} not ready, {gone} gone
  workloads  {placed} on hosts, {pending} waiting, {moving} moving; {} beyond their SLO
  moves      {} arrived, {} did not
  judged     {judged} moves, {helped} helped",
        status.violated, status.arrived, status.failed
    )
}
