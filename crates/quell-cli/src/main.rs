//! The `quell` command: one file a subcommand, under `commands/`.

// The macros panic where the output is full or closed; `writeln!` says so.
#![deny(clippy::print_stdout, clippy::print_stderr)]

/// As the standard one, but a standard error that is full or closed is no reason to panic.
macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod commands;
#[cfg(test)]
mod documents;
mod host;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use quell_report::screen::{Mark, Screen};

/// Latency-critical services keep the latency that they have alone; best-effort work gets the rest.
#[derive(Parser)]
#[command(name = "quell", version, max_term_width = 110)]
struct Cli {
    /// Show every column of tables, even those that the terminal has no room for
    #[arg(long, global = true, help_heading = "Everywhere")]
    wide: bool,
    #[command(subcommand)]
    command: commands::Command,
}

/// The whole command line, without the texts of [`commands::with_help`].
fn bare_command() -> clap::Command {
    Cli::command()
}

/// The whole command line, as for files.
fn command() -> clap::Command {
    commands::with_help(bare_command(), &Screen::UNBOUNDED)
}

fn main() -> ExitCode {
    let matches = commands::with_help(bare_command(), &Screen::of_output()).try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let printed = error.print();
            let told = || printed.map_err(anyhow::Error::from).and_then(|()| commands::flushed(ExitCode::SUCCESS));
            // Help and the version go to standard output and are what was asked for.
            return if error.use_stderr() { ExitCode::from(2) } else { told().unwrap_or_else(|error| failed(&error)) };
        }
    };
    Screen::find(cli.wide);
    commands::run(cli.command).and_then(commands::flushed).unwrap_or_else(|error| failed(&error))
}

fn failed(error: &anyhow::Error) -> ExitCode {
    let (line, code) = commands::ending(error);
    if let Some(line) = line {
        eprintln!("{}", Screen::of_errors().mark(Mark::Bad, line));
    }
    code
}
