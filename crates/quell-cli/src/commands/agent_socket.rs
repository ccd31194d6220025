//! Where a running agent is found.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use quell_agent::api::{Client, SOCKET};

/// Which agent to ask.
#[derive(Args)]
pub struct AgentSocket {
    /// The agent's socket
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
}

impl AgentSocket {
    /// A client for it; connects when it is asked something.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::new(&self.socket)?)
    }
}
