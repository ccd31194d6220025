//! `quell completions`: a shell's completions, with the values that Quell knows.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;
use quell_command::generate::{self, Values};
use quell_policy::AnyPolicy;

/// Print completions for a shell
///
/// They complete commands, options and policies. The package installs those for bash, fish and zsh.
#[derive(Args)]
pub struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    generate::completions(arguments.shell, crate::command(), values())
}

/// What the arguments can be.
pub fn values() -> Vec<Values> {
    let policies: Vec<&str> = AnyPolicy::ALL.iter().map(|policy| policy.name).collect();
    vec![("exec", "policy", policies.clone()), ("doctor", "policy", policies)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_know_policies() {
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            let text = String::from_utf8(generate::completions_text(shell, crate::command(), values())).unwrap();
            for value in ["shenango", "completions"] {
                assert!(text.contains(value), "{shell}: {value}");
            }
        }
    }
}
