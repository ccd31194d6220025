//! `quell-lab completions`: a shell's completions, with the values that it knows.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;
use quell_command::generate::{self, Values};
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
    generate::completions(arguments.shell, crate::command(), values())
}

/// What the arguments can be.
pub fn values() -> Vec<Values> {
    let policies: Vec<&str> = AnyPolicy::ALL.iter().map(|policy| policy.name).collect();
    let scenarios = SHIPPED.iter().map(|shipped| shipped.name).collect();
    let topics = topics().iter().map(|topic| topic.id.as_str()).collect();
    vec![
        ("replay", "policy", policies.clone()),
        ("run", "against", policies),
        ("run", "scene", scenarios),
        ("paper", "ids", topics),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_know_policies_scenarios_and_topics() {
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            let text = String::from_utf8(generate::completions_text(shell, crate::command(), values())).unwrap();
            // clap's fish completions know the values of options alone.
            let positional = ["memcached-2cpus", "queueing"].into_iter().filter(|_| shell != Shell::Fish);
            for value in ["shenango", "completions"].into_iter().chain(positional) {
                assert!(text.contains(value), "{shell}: {value}");
            }
        }
    }
}
