//! `quell verify`: do all settings stand?

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use quell_agent::AgentError;
use quell_agent::api::wire::Verified;

use super::agent_socket::{AgentSocket, Command};
use quell_command::output;

use super::cells;

/// The exit status where no agent answers.
const NO_AGENT: u8 = 3;

/// Read back every setting of every workload now.
///
/// The exit status is 0 if all are in force, 1 if one is not (with a line for each difference), 3 if no agent answers. Only root and
/// the agent's own user may do this.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    agent: AgentSocket,
    /// Print the answer as JSON (`GET /v1/verify`), a line for the agent and one for each command without one
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let agent = arguments.agent.client()?.verify();
    // One that has ended meanwhile is none.
    let ask = |command: Command| Some((format!("{}: ", command.name), command.client.verify().ok()?));
    let commands: Vec<(String, Verified)> = arguments.agent.commands().into_iter().filter_map(ask).collect();
    let all = match agent {
        Err(error @ AgentError::NoAgent { .. }) if commands.is_empty() => {
            eprintln!("quell: {error}");
            return Ok(ExitCode::from(NO_AGENT));
        }
        Err(AgentError::NoAgent { .. }) => commands,
        answer => std::iter::once((String::new(), answer?)).chain(commands).collect(),
    };
    for (of, verified) in &all {
        if arguments.json {
            output::json_line(verified)?;
        } else {
            text(verified).lines().try_for_each(|line| writeln!(io::stdout(), "{of}{line}"))?;
        }
    }
    let stands = all.iter().all(|(_, verified)| verified.differences.is_empty());
    Ok(if stands { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(verified: &Verified) -> String {
    let workloads = match verified.workloads {
        1 => "1 workload".to_owned(),
        count => format!("{count} workloads"),
    };
    let threads = cells::threads(u32::try_from(verified.threads).unwrap_or(u32::MAX));
    match &verified.differences[..] {
        [] => format!("all settings are in force ({workloads}, {threads})\n"),
        differences => differences.iter().map(|line| format!("! {line}\n")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_a_line() {
        let mut verified = Verified { workloads: 1, threads: 5, differences: vec![] };
        assert_eq!(text(&verified), "all settings are in force (1 workload, 5 threads)\n");
        verified.differences = vec!["a: x".into(), "b: y".into()];
        assert_eq!(text(&verified), "! a: x\n! b: y\n");
    }
}
