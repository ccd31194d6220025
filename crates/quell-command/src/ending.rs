//! A program's command line, from its words to its exit status.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgMatches, Command};
use quell_report::screen::{Mark, Screen};

use crate::output::{WRONG_COMMAND_LINE, ending, flushed};
use crate::request::{Kind, answered};

/// Reads the words of the command line and runs what they ask for, or answers a request of these kinds. An error is one line
/// on standard error that begins with the program's name.
pub fn main(mut command: Command, kinds: &[Kind], run: impl FnOnce(&ArgMatches) -> Result<ExitCode>) -> ExitCode {
    let program = command.get_name().to_owned();
    if let Some(ended) = answered(kinds) {
        return ended.and_then(flushed).unwrap_or_else(|error| failed(&program, &error));
    }
    let matches = match command.try_get_matches_from_mut(std::env::args_os()) {
        Ok(matches) => matches,
        Err(error) => {
            let printed = error.print();
            if let Some(examples) = examples(&command, std::env::args().nth(1)).filter(|_| error.use_stderr()) {
                let _ = writeln!(std::io::stderr(), "\n{examples}");
            }
            let end = || printed.map_err(anyhow::Error::from).and_then(|()| flushed(ExitCode::SUCCESS));
            // Help and the version go to standard output and are what was asked for.
            return if error.use_stderr() {
                ExitCode::from(WRONG_COMMAND_LINE)
            } else {
                end().unwrap_or_else(|error| failed(&program, &error))
            };
        }
    };
    run(&matches).and_then(flushed).unwrap_or_else(|error| failed(&program, &error))
}

/// The examples of the subcommand of this name: what is wrong is often easier to see beside what is right.
fn examples(command: &Command, name: Option<String>) -> Option<String> {
    let examples = command.find_subcommand(name?)?.get_after_help()?.ansi().to_string();
    (!examples.is_empty()).then_some(examples)
}

fn failed(program: &str, error: &anyhow::Error) -> ExitCode {
    let (line, code) = ending(program, error);
    if let Some(line) = line {
        // A standard error that is full or closed is no reason to panic.
        let _ = writeln!(std::io::stderr(), "{}", Screen::of_errors().mark(Mark::Bad, line));
    }
    code
}
