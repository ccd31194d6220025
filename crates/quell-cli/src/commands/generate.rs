//! `quell generate`: man pages and shell completions, for packages.

mod manual;
mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use clap_complete::{Shell, generate_to};

use super::completions::with_values;

/// Write man pages or shell completions into a directory
#[derive(Args)]
#[command(hide = true)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// One page for quell and one for each subcommand, and quell.toml(5) and quell-scenario(5)
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
    match &arguments.what {
        What::Man { directory } => {
            make(directory)?;
            manual::write(without_help(crate::command()), directory)?;
        }
        What::Completions { directory } => {
            make(directory)?;
            let mut command = with_values(without_help(crate::command()));
            for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
                generate_to(shell, &mut command, "quell", directory)
                    .with_context(|| format!("write completions for {shell} into {}", directory.display()))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `quell help` and the like need no pages of their own.
pub fn without_help(command: clap::Command) -> clap::Command {
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
        let command = crate::command();
        for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            let name = subcommand.get_name();
            let page = fs::read_to_string(path("man").join(format!("quell-{name}.1"))).unwrap();
            assert!(page.contains(".SH \"EXIT STATUS\"") && page.contains(".SH \"SEE ALSO\""), "{name}: {page}");
            assert!(bash.contains(name), "{name}");
        }
    }

    #[test]
    fn man_pages_name_files_statuses_and_keys() {
        let directory = tempfile::tempdir().unwrap();
        run(&Arguments { what: What::Man { directory: directory.path().to_owned() } }).unwrap();
        let page = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(page("quell-run.1").contains("/etc/quell/quell.toml") && page("quell.1").contains(".SH FILES"));
        assert!(page("quell-exec.1").contains("126") && !page("quell-check.1").contains("126"));
        assert!(page("quell-lab-run.1").contains("125"));
        for key in ["hung_after", "reservation", "enable_controllers"] {
            assert!(page("quell.toml.5").contains(key), "{key}");
        }
        assert!(page("quell-scenario.5").contains("warm_up"));
    }
}
