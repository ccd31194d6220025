//! `quell-lab boot`: a real sched_ext kernel on any machine.

mod fetch;
mod run;
mod shell;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use quell_guest::LabError;

/// A real sched_ext kernel on any machine, with repeatable time
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    Run(run::Arguments),
    Shell(shell::Arguments),
    Fetch(fetch::Arguments),
}

/// Runs one of the lab's commands; an error of the lab's has its own exit status.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let result = match &arguments.command {
        LabCommand::Run(arguments) => run::run(arguments),
        LabCommand::Shell(arguments) => shell::run(arguments),
        LabCommand::Fetch(arguments) => fetch::run(arguments),
    };
    result.or_else(|error| match error.downcast_ref::<LabError>() {
        Some(lab_error) => {
            eprintln!("quell-lab: {lab_error}");
            Ok(ExitCode::from(lab_error.exit_status()))
        }
        None => Err(error),
    })
}
