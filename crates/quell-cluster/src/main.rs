//! `quell-cluster`: asks the controller of a cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
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
    /// Says how the cluster is.
    Status {
        #[command(flatten)]
        asked: Asked,
    },
    /// Says where a workload is and which moves were made for it.
    Why {
        /// The workload's number.
        workload: u32,
        #[command(flatten)]
        asked: Asked,
    },
}

#[derive(Args)]
struct Asked {
    /// The folder with its socket [default: quell-cluster in $XDG_RUNTIME_DIR, else in /run].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match execute(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn execute(command: &Command) -> Result<()> {
    match command {
        Command::Status { asked } => {
            let status = Folder::new(asked.dir.as_deref()).status()?;
            if asked.json {
                println!("{}", serde_json::to_string_pretty(&status)?);
            } else {
                print_status(&status);
            }
        }
        Command::Why { workload, asked } => {
            let told = Folder::new(asked.dir.as_deref()).told(WorkloadId(*workload))?;
            if asked.json {
                println!("{}", serde_json::to_string_pretty(&told)?);
            } else {
                println!("{}", told.text(&Screen::of_output()));
            }
        }
    }
    Ok(())
}

fn print_status(status: &Status) {
    let Status { about, policy, now, found, ready, not_ready, gone, placed, pending, moving, .. } = status;
    println!("{about}\nunder {policy}, at {now}{}", if *found { ", found by this controller" } else { "" });
    println!("  hosts      {ready} ready, {not_ready} not ready, {gone} gone");
    println!(
        "  workloads  {placed} on hosts, {pending} waiting, {moving} moving; {} beyond their SLO",
        status.violated
    );
    println!("  moves      {} arrived, {} did not", status.arrived, status.failed);
    println!("  judged     {} moves, {} helped", status.judged.0, status.judged.1);
}
