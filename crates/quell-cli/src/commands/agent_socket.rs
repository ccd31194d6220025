//! Where a running agent is found, and the commands that manage a workload without one.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use quell_agent::api::{Client, SOCKET};
use quell_agent::guardian::{Leftover, RUN_DIR_VARIABLE, RunDir, commands_in, leftovers};
use quell_linux::Roots;

use super::starting;

/// Which agent to ask.
#[derive(Args)]
pub struct AgentSocket {
    /// The agent's socket [default: api.sock in the run directory, that is QUELL_RUN_DIR, or /run/quell]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// A command that manages a workload without an agent, and answers.
pub struct Command {
    /// Its name in the run directory: `exec-4711`.
    pub name: String,
    /// Its socket.
    pub socket: PathBuf,
    /// A client for it.
    pub client: Client,
}

impl AgentSocket {
    /// The commands of this user, or of QUELL_RUN_DIR, that manage a workload without an agent; none beside a socket that is
    /// named.
    pub fn commands(&self) -> Vec<Command> {
        if self.socket.is_some() {
            return Vec::new();
        }
        let found = self.directories().into_iter().flat_map(|directory| commands_in(&directory));
        found.filter_map(|(name, socket)| Some(Command { name, client: Client::new(&socket).ok()?, socket })).collect()
    }

    /// Commands of this user that do not answer yet, in a line; none beside a socket that is named.
    pub fn starting(&self) -> Option<String> {
        if self.socket.is_some() { None } else { starting::line() }
    }

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
        self.directories().iter().flat_map(|directory| leftovers(directory, &Roots::default().proc)).collect()
    }

    /// The run directory, and that of the socket.
    fn directories(&self) -> Vec<PathBuf> {
        let socket = self.path();
        let mut directories = vec![RunDir::path_of(None)];
        directories.extend(socket.parent().map(PathBuf::from).filter(|beside| *beside != directories[0]));
        directories
    }
}
