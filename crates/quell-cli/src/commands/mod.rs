//! One module a subcommand. Each offers its arguments (a clap type) and `run`.

mod agent_socket;
mod antagonist;
mod cells;
mod check;
mod completions;
#[cfg(test)]
mod dashboards;
mod demo;
mod disable;
mod doctor;
mod enable;
mod exec;
mod facts;
#[cfg(test)]
mod first_minutes;
mod gap;
mod generate;
mod help;
mod load;
mod managed;
mod off;
mod on;
mod otlp;
#[cfg(test)]
mod pasted;
mod pods;
mod protect;
mod prove;
mod recommend;
mod restore;
mod run;
#[cfg(test)]
mod sample;
mod starting;
mod status;
mod top;
mod vas;
mod verify;
mod version;
mod waits;
mod why;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

pub use exec::hint as hint_of_exec;
pub use help::HELP;

/// What `quell` can do.
#[derive(Subcommand)]
pub enum Command {
    Antagonist(antagonist::Arguments),
    Check(check::Arguments),
    Completions(completions::Arguments),
    Demo(demo::Arguments),
    Disable(disable::Arguments),
    Doctor(doctor::Arguments),
    Enable(enable::Arguments),
    Exec(exec::Arguments),
    Gap(gap::Arguments),
    Generate(generate::Arguments),
    Load(load::Arguments),
    Off(off::Arguments),
    On(on::Arguments),
    Otlp(otlp::Arguments),
    Protect(protect::Arguments),
    Prove(prove::Arguments),
    Recommend(recommend::Arguments),
    Restore(restore::Arguments),
    Run(run::Arguments),
    Status(status::Arguments),
    Top(top::Arguments),
    Vas(vas::Arguments),
    Verify(verify::Arguments),
    #[command(hide = true)]
    Version(version::Arguments),
    Why(why::Arguments),
}

/// Runs one subcommand; the exit status is the command's own.
///
/// # Errors
/// Whatever the subcommand could not do, with the way to fix it in the text.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Antagonist(arguments) => antagonist::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Disable(arguments) => disable::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Enable(arguments) => enable::run(&arguments),
        Command::Exec(arguments) => exec::run(&arguments),
        Command::Gap(arguments) => gap::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Load(arguments) => load::run(&arguments),
        Command::Off(arguments) => off::run(&arguments),
        Command::On(arguments) => on::run(&arguments),
        Command::Otlp(arguments) => otlp::run(&arguments),
        Command::Protect(arguments) => protect::run(&arguments),
        Command::Prove(arguments) => prove::run(&arguments),
        Command::Recommend(arguments) => recommend::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Vas(arguments) => vas::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Version(arguments) => version::run(&arguments),
        Command::Why(arguments) => why::run(&arguments),
    }
}
