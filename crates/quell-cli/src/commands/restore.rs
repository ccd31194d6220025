//! `quell restore`: puts back what a killed agent or command left behind.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use quell_agent::AgentError;
use quell_agent::guardian::{Report, RunDir, Site, Stale, put_back_journal};
use serde_json::json;

use quell_command::output;

/// Put back everything that Quell changed and that no running Quell owns
///
/// Reads the journals in the run directory. Only what still has the value that Quell wrote is put back; what another
/// process has changed since is listed and left as it is. There is nothing to do unless guardian and worker were killed at once: each
/// puts everything back when the other dies; `quell status` and `quell doctor` report it. The systemd unit calls this when the service has ended.
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
    let directory = RunDir::existing(arguments.run_dir.as_deref())?;
    let mut total = Report::default();
    let (mut alive, mut unclear, mut newer) = (Vec::new(), Vec::new(), Vec::new());
    for journal in directory.as_ref().map_or_else(|| Ok(Vec::new()), RunDir::journals)? {
        match journal {
            Stale::Ours(claim) => match put_back_journal(&claim.journal(), &Site::default(), &mut || {}) {
                Ok(report) => {
                    total.add(report);
                    claim.clear();
                }
                // The others are put back all the same.
                Err(error @ AgentError::NewerJournal { .. }) => newer.push(error.to_string()),
                Err(error) => return Err(error.into()),
            },
            Stale::Held { name, pid } => alive.push((name, pid)),
            Stale::Unclear { name, why } => unclear.push((name, why)),
        }
    }
    if let Some(directory) = &directory {
        directory.drop_locks_of_the_dead();
        // Where an agent answers, or another file stands, it is left.
        let _ = quell_agent::api::socket::remove_dead(&directory.path().join("api.sock"));
    }
    if arguments.json {
        output::json(json!({ "report": total, "alive": alive, "unclear": unclear, "newer": newer }))?;
    } else {
        newer.iter().for_each(|newer| eprintln!("quell: {newer}"));
        print(&total, &alive, &unclear, newer.is_empty())?;
    }
    Ok(if total.left.is_empty() && unclear.is_empty() && newer.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print(total: &Report, alive: &[(String, i32)], unclear: &[(String, String)], all: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for (name, pid) in alive {
        writeln!(out, "skipped: what '{name}' changed: it is running (process {pid}) and puts it back itself")?;
    }
    for (name, why) in unclear {
        eprintln!(
            "quell: not put back: what '{name}' changed: another process holds its lock, and it is unknown whether that is a \
             running Quell: {why}; end that process, or remove '{name}.lock' if no Quell runs"
        );
    }
    for write in &total.restored {
        writeln!(out, "put back: {} is {} again (was {})", write.place, write.after, write.before)?;
    }
    for left in &total.left {
        eprintln!("quell: {left}");
    }
    if *total == Report::default() {
        if unclear.is_empty() && all { writeln!(out, "nothing to put back") } else { Ok(()) }
    } else {
        writeln!(out, "{}", total.summary())
    }
}
