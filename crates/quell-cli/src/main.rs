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

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use commands::HELP;
use quell_command::programs::antagonist;
use quell_command::request;
use quell_report::screen::Screen;

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

/// The whole command line, without the texts of [`HELP`].
fn bare_command() -> clap::Command {
    Cli::command()
}

/// The whole command line, as for files.
fn command() -> clap::Command {
    HELP.on(bare_command(), &Screen::UNBOUNDED)
}

/// Words for what the laboratory does, and its command for each.
const OF_THE_LABORATORY: [(&str, &str); 6] = [
    ("lab", "boot` or `quell-lab run --on programs --in lab"),
    ("play", "run"),
    ("replay", "replay"),
    ("reproduce", "paper"),
    ("sim", "run"),
    ("validate", "validate"),
];

fn main() -> ExitCode {
    let word = std::env::args_os().nth(1).unwrap_or_default();
    if let Some((asked, command)) = OF_THE_LABORATORY.iter().find(|(asked, _)| *asked == word) {
        eprintln!(
            "quell: there is no '{asked}': the laboratory has it, as `quell-lab {command}`, of the package quell-lab"
        );
        return ExitCode::from(2);
    }
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if word == "exec"
        && let Some(hint) = commands::hint_of_exec(&words, |words| bare_command().try_get_matches_from(words))
    {
        eprintln!("quell: {hint}");
        return ExitCode::from(2);
    }
    let kinds = [request::kind::<antagonist::Request>()];
    quell_command::main(HELP.on(bare_command(), &Screen::of_output()), &kinds, |matches| {
        let cli = Cli::from_arg_matches(matches)?;
        Screen::find(cli.wide);
        commands::run(cli.command)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_command_line_in_the_documents_is_one_that_is_taken() {
        quell_checks::documents::commands::assert_taken(super::bare_command(), 60);
    }
}
