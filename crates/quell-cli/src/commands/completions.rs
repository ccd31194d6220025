//! `quell completions`: a shell's completions, with the values that Quell knows.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::Shell;
use quell_evidence::topics;
use quell_policy::AnyPolicy;
use quell_sim::scenario::SHIPPED;

/// Print completions for a shell
///
/// They complete commands, options, policies, scenarios and what can be reproduced. The package installs those for bash,
/// fish and zsh.
#[derive(Args)]
pub struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut with_values(crate::command()), "quell", &mut text);
    io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The command, whose arguments know their values. For completions only: when it runs, each argument checks its own
/// values.
pub fn with_values(command: Command) -> Command {
    let policies: Vec<&str> = AnyPolicy::ALL.iter().map(|policy| policy.name).collect();
    let scenarios = SHIPPED.iter().map(|shipped| shipped.name).collect::<Vec<_>>();
    let topics = topics().iter().map(|topic| topic.id.as_str()).collect::<Vec<_>>();
    [
        ("exec", "policy", &policies),
        ("doctor", "policy", &policies),
        ("replay", "policy", &policies),
        ("sim", "policies", &policies),
        ("sim", "scenario", &scenarios),
        ("reproduce", "ids", &topics),
    ]
    .into_iter()
    .fold(command, |command, (subcommand, argument, values)| {
        let values = PossibleValuesParser::new(values.clone());
        command.mut_subcommand(subcommand, |subcommand| {
            subcommand.mut_arg(argument, |argument| argument.value_parser(values))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_know_policies_scenarios_and_topics() {
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut with_values(crate::command()), "quell", &mut text);
            let text = String::from_utf8(text).unwrap();
            // clap's fish completions know the values of options alone.
            let positional = ["memcached-2cpus", "queueing"].into_iter().filter(|_| shell != Shell::Fish);
            for value in ["shenango", "completions"].into_iter().chain(positional) {
                assert!(text.contains(value), "{shell}: {value}");
            }
        }
    }
}
