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
pub fn main(command: Command, kinds: &[Kind], run: impl FnOnce(&ArgMatches) -> Result<ExitCode>) -> ExitCode {
    let program = command.get_name().to_owned();
    if let Some(ended) = answered(kinds) {
        return ended.and_then(flushed).unwrap_or_else(|error| failed(&program, &error));
    }
    let matches = match command.try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            let printed = error.print();
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

fn failed(program: &str, error: &anyhow::Error) -> ExitCode {
    let (line, code) = ending(program, error);
    if let Some(line) = line {
        // A standard error that is full or closed is no reason to panic.
        let _ = writeln!(std::io::stderr(), "{}", Screen::of_errors().mark(Mark::Bad, line));
    }
    code
}
