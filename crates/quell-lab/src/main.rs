//! The `quell-lab` command, the laboratory: one file or folder a subcommand, under `commands/`.

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
mod in_guest;
mod kept;
mod play;
mod product;
mod programs;
mod scenario_file;
mod simulate;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use commands::HELP;
use quell_report::screen::Screen;

/// Quell's laboratory: simulator, real kernels in a virtual machine, and what is claimed of the policies.
#[derive(Parser)]
#[command(name = "quell-lab", version, max_term_width = 110)]
struct Cli {
    /// Show every column of tables, even those that the terminal has no room for
    #[arg(long, global = true, help_heading = "Everywhere")]
    wide: bool,
    #[command(subcommand)]
    command: commands::Command,
}

/// The whole command line, without the texts of [`HELP`].
fn bare_command() -> clap::Command {
    Cli::command()
}

/// The whole command line, as for files.
fn command() -> clap::Command {
    HELP.on(bare_command(), &Screen::UNBOUNDED)
}

fn main() -> ExitCode {
    quell_command::main(HELP.on(bare_command(), &Screen::of_output()), &commands::requests(), |matches| {
        let cli = Cli::from_arg_matches(matches)?;
        Screen::find(cli.wide);
        commands::run(cli.command)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_command_line_in_the_documents_is_one_that_is_taken() {
        quell_checks::documents::commands::assert_taken(super::bare_command(), 20);
    }
}
