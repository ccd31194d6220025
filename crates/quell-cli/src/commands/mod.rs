//! One module a subcommand. Each offers its arguments (a clap type) and `run`.

mod agent_socket;
mod antagonist;
mod cells;
mod check;
mod completions;
mod demo;
mod doctor;
mod exec;
mod gap;
mod generate;
mod help;
mod lab;
mod load;
mod off;
mod on;
mod output;
mod outputs;
mod parameters;
mod play;
mod programs;
mod replay;
mod reproduce;
mod restore;
mod run;
#[cfg(test)]
mod sample;
mod signals;
mod sim;
mod status;
mod top;
mod units;
mod validate;
mod vas;
mod verify;
mod why;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

pub use help::with_help;
pub use output::{ending, flushed};

/// What `quell` can do.
#[derive(Subcommand)]
pub enum Command {
    Antagonist(antagonist::Arguments),
    Check(check::Arguments),
    Completions(completions::Arguments),
    Demo(demo::Arguments),
    Doctor(doctor::Arguments),
    Exec(exec::Arguments),
    Gap(gap::Arguments),
    Generate(generate::Arguments),
    Lab(lab::Arguments),
    Load(load::Arguments),
    Off(off::Arguments),
    On(on::Arguments),
    Play(play::Arguments),
    Replay(replay::Arguments),
    Reproduce(reproduce::Arguments),
    Restore(restore::Arguments),
    Run(run::Arguments),
    Sim(sim::Arguments),
    Status(status::Arguments),
    Top(top::Arguments),
    Validate(validate::Arguments),
    Vas(vas::Arguments),
    Verify(verify::Arguments),
    Why(why::Arguments),
}

/// Runs one subcommand; the exit status is the command's own.
///
/// # Errors
/// Whatever the subcommand could not do, with the way to mend it in the text.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Antagonist(arguments) => antagonist::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Exec(arguments) => exec::run(&arguments),
        Command::Gap(arguments) => gap::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Load(arguments) => load::run(&arguments),
        Command::Off(arguments) => off::run(&arguments),
        Command::On(arguments) => on::run(&arguments),
        Command::Play(arguments) => play::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Validate(arguments) => validate::run(&arguments),
        Command::Vas(arguments) => vas::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Why(arguments) => why::run(&arguments),
    }
}
