//! `quell on`: the end of `quell off`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use quell_agent::api::wire::Command;

use super::agent_socket::AgentSocket;
use quell_command::output;

use super::off;

/// Set everything again after `quell off`.
///
/// Policies start from scratch. While another process holds an off lease, the agent stays off until that ends. If the agent
/// is on, nothing changes.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    agent: AgentSocket,
    /// Print the answer as JSON (`POST /v1/control`)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let answer = arguments.agent.client()?.control(Command::On)?;
    match &answer.off {
        Some(off) => {
            if arguments.json {
                output::json_line(&answer)?;
            }
            let (hold, it) =
                if off.by.len() == 1 { ("holds an off lease", "that ends") } else { ("hold off leases", "those end") };
            bail!("still off: {} {hold}; the agent turns on when {it}", off.by.join(" and "))
        }
        None => off::print(&answer, arguments.json),
    }
}
