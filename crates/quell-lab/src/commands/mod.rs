//! One module a subcommand. Each offers its arguments (a clap type) and `run`.

mod completions;
mod generate;
mod help;
mod lab;
mod play;
mod replay;
mod reproduce;
mod sim;
mod validate;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use quell_command::programs::{Load, antagonist};
use quell_command::request;

pub use help::HELP;

use crate::play::{Play, Player};

/// What `quell-lab` can do.
#[derive(Subcommand)]
pub enum Command {
    Completions(completions::Arguments),
    Generate(generate::Arguments),
    Lab(lab::Arguments),
    Play(play::Arguments),
    Replay(replay::Arguments),
    Reproduce(reproduce::Arguments),
    Sim(sim::Arguments),
    Validate(validate::Arguments),
}

/// What a process of this program can be asked for.
pub fn requests() -> [request::Kind; 5] {
    [
        request::kind::<antagonist::Request>(),
        request::kind::<Load>(),
        request::kind::<Player>(),
        request::kind::<Play>(),
        request::kind::<reproduce::bands::Run>(),
    ]
}

/// Runs one subcommand; the exit status is the command's own.
///
/// # Errors
/// Whatever the subcommand could not do, with the fix in the text.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Play(arguments) => play::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Validate(arguments) => validate::run(&arguments),
    }
}
