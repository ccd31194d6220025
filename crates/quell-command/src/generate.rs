//! `generate`: man pages and shell completions, for packages; and the completions of one shell.

pub mod manual;
mod page;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, Command, Subcommand};
use clap_complete::{Shell, generate_to};

use self::manual::Manual;

/// Write man pages or shell completions into a directory
#[derive(Args)]
#[command(hide = true)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A page for the program and for each of its subcommands, and those of its files' formats
    Man {
        /// The directory; made if it does not exist
        directory: PathBuf,
    },
    /// For bash, fish and zsh
    Completions {
        /// The directory; made if it does not exist
        directory: PathBuf,
    },
}

/// An argument's values that a program knows: subcommand, argument, values.
pub type Values = (&'static str, &'static str, Vec<&'static str>);

impl Arguments {
    /// Writes what is asked for of a program's command line.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn run(&self, command: Command, manual: &Manual, values: Vec<Values>) -> Result<ExitCode> {
        match &self.what {
            What::Man { directory } => {
                make(directory)?;
                manual.write(without_help(command), directory)?;
            }
            What::Completions { directory } => {
                make(directory)?;
                let program = command.get_name().to_owned();
                let mut command = with_values(without_help(command), values);
                for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
                    generate_to(shell, &mut command, &program, directory)
                        .with_context(|| format!("write completions for {shell} into {}", directory.display()))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A shell's completions, on the output.
///
/// # Errors
/// If they cannot be written.
pub fn completions(shell: Shell, command: Command, values: Vec<Values>) -> Result<ExitCode> {
    io::stdout().write_all(&completions_text(shell, command, values))?;
    Ok(ExitCode::SUCCESS)
}

/// A shell's completions.
#[must_use]
pub fn completions_text(shell: Shell, command: Command, values: Vec<Values>) -> Vec<u8> {
    let (mut text, program) = (Vec::new(), command.get_name().to_owned());
    clap_complete::generate(shell, &mut with_values(command, values), program, &mut text);
    text
}

/// The command, whose arguments know their values. For completions only: when it runs, each argument checks its own
/// values.
fn with_values(command: Command, values: Vec<Values>) -> Command {
    values.into_iter().fold(command, |command, (subcommand, argument, values)| {
        command.mut_subcommand(subcommand, |subcommand| {
            subcommand.mut_arg(argument, |argument| argument.value_parser(PossibleValuesParser::new(values)))
        })
    })
}

/// `help` needs no page of its own.
#[must_use]
pub fn without_help(command: Command) -> Command {
    let command = command.disable_help_subcommand(true);
    command.mut_subcommands(without_help)
}

fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("make the directory {}", directory.display()))
}
