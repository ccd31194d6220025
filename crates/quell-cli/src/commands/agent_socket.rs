//! Where a running agent is found.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use quell_agent::api::{Client, SOCKET};
use quell_agent::guardian::{Leftover, RUN_DIR_VARIABLE, RunDir, leftovers};
use quell_linux::Roots;

/// Which agent to ask.
#[derive(Args)]
pub struct AgentSocket {
    /// The agent's socket [default: api.sock in the run directory, that is QUELL_RUN_DIR, or /run/quell]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl AgentSocket {
    /// A client for it; connects when it is asked something.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::new(&self.path())?)
    }

    fn path(&self) -> PathBuf {
        // An ordinary user's own agent, else the machine's.
        let own = RunDir::path_of(None).join("api.sock");
        let named = std::env::var_os(RUN_DIR_VARIABLE).is_some_and(|named| !named.is_empty());
        let usual = if named || own.exists() { own } else { SOCKET.into() };
        self.socket.clone().unwrap_or(usual)
    }

    /// What killed Quells left in the run directory, and beside the socket.
    pub fn leftovers(&self) -> Vec<Leftover> {
        let socket = self.path();
        let mut directories = vec![RunDir::path_of(None)];
        directories.extend(socket.parent().map(PathBuf::from).filter(|beside| *beside != directories[0]));
        directories.iter().flat_map(|directory| leftovers(directory, &Roots::default().proc)).collect()
    }
}
