//! `quell generate`: man pages and shell completions, for packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory, Subcommand};
use clap_complete::{Shell, generate_to};

/// Write man pages or shell completions into a directory
#[derive(Args)]
#[command(hide = true)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// One page for quell and one for each subcommand
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

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut command = without_help(crate::Cli::command());
    match &arguments.what {
        What::Man { directory } => {
            make(directory)?;
            clap_mangen::generate_to(command, directory)
                .with_context(|| format!("write man pages into {}", directory.display()))?;
        }
        What::Completions { directory } => {
            make(directory)?;
            for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
                generate_to(shell, &mut command, "quell", directory)
                    .with_context(|| format!("write completions for {shell} into {}", directory.display()))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `quell help` and the like need no pages of their own.
fn without_help(command: clap::Command) -> clap::Command {
    let command = command.disable_help_subcommand(true);
    command.mut_subcommands(without_help)
}

fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("make the directory {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_subcommand_has_a_man_page_and_completions() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        run(&Arguments { what: What::Man { directory: path("man") } }).unwrap();
        run(&Arguments { what: What::Completions { directory: path("completions") } }).unwrap();
        assert!(!path("man/quell-help.1").exists());
        let bash = fs::read_to_string(path("completions/quell.bash")).unwrap();
        let command = crate::Cli::command();
        for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            let name = subcommand.get_name();
            assert!(path("man").join(format!("quell-{name}.1")).exists(), "{name}");
            assert!(bash.contains(name), "{name}");
        }
    }
}
