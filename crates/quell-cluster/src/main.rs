//! `quell-cluster`: controls a cluster, publishes a node's contention to it, and asks its controller.

mod control;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use quell_cluster::folder::Folder;
use quell_cluster::live::Status;
use quell_report::screen::Screen;

/// Placement by contention over a cluster of hosts: its controller, and what asks it. Simulated clusters are `quell-lab cluster`'s.
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
    /// Control a cluster: mark contended hosts, and move workloads away from contention
    Run(control::Run),
    /// Publish this node's contention as an annotation of its Node object
    Publish(control::Publish),
    /// Take all taints, labels and reports of Quell's off the nodes
    Clean,
    /// Report where a workload is and which moves were made for it
    Why {
        /// The workload's number, or NAMESPACE/NAME of a pod
        #[arg(value_parser = workload)]
        workload: String,
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

fn workload(text: &str) -> Result<String, String> {
    match text.parse::<u32>().is_ok()
        || text.split_once('/').is_some_and(|(space, name)| !space.is_empty() && !name.is_empty())
    {
        true => Ok(text.to_owned()),
        false => Err("give a number, or NAMESPACE/NAME".into()),
    }
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
        Command::Run(arguments) => return arguments.run(),
        Command::Publish(arguments) => return arguments.run(),
        Command::Clean => control::clean()?,
        Command::Why { workload, asked } => {
            let report = Folder::new(asked.dir.as_deref()).workload(workload)?;
            if asked.json { serde_json::to_string_pretty(&report)? } else { report.text(&Screen::of_output()) }
        }
    };
    Ok(writeln!(io::stdout(), "{text}")?)
}

fn text_of(status: &Status) -> String {
    let Status { about, policy, now, found, ready, not_ready, gone, placed, pending, moving, .. } = status;
    let found = if *found { ", found by this controller" } else { "" };
    let (helped, judged) = (status.judged.1, status.judged.0);
    let remarks: String = status.remarks.iter().map(|remark| format!("\n  {remark}")).collect();
    format!(
        "{about}\nunder {policy}, at {now}{found}
  hosts      {ready} ready, {not_ready} not ready, {gone} gone
  workloads  {placed} on hosts, {pending} waiting, {moving} moving; {} beyond their SLO
  moves      {} arrived, {} did not
  judged     {judged} moves, {helped} helped{remarks}",
        status.violated, status.arrived, status.failed
    )
}
