//! One module a subcommand. Each offers its arguments (a clap type) and `run`.

mod boot;
mod cluster;
mod completions;
mod count;
mod demo;
mod generate;
mod help;
mod paper;
mod replay;
mod run;
mod validate;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use quell_command::programs::antagonist;
use quell_command::request;

pub use help::HELP;

use crate::play::{CountedPlay, Load, Play, Player};

/// What `quell-lab` can do.
#[derive(Subcommand)]
pub enum Command {
    Boot(boot::Arguments),
    Cluster(cluster::Arguments),
    Completions(completions::Arguments),
    Count(count::Arguments),
    Demo(demo::Arguments),
    Generate(generate::Arguments),
    Paper(paper::Arguments),
    Replay(replay::Arguments),
    Run(Box<run::Arguments>),
    Validate(validate::Arguments),
}

/// What a process of this program can be asked for.
pub fn requests() -> [request::Kind; 6] {
    [
        request::kind::<antagonist::Request>(),
        request::kind::<Load>(),
        request::kind::<Player>(),
        request::kind::<Play>(),
        request::kind::<CountedPlay>(),
        request::kind::<paper::bands::Run>(),
    ]
}

/// Runs one subcommand; the exit status is the command's own.
///
/// # Errors
/// Whatever the subcommand could not do, with the fix in the text.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Boot(arguments) => boot::run(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Count(arguments) => count::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Paper(arguments) => paper::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Run(arguments) => run::run(*arguments),
        Command::Validate(arguments) => validate::run(&arguments),
    }
}
