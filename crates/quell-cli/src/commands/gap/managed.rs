//! A workload by the name that `quell status` and `quell top` show: what manages it knows its processes.

use quell_agent::api::Client;
use quell_agent::api::wire::{Status, Thread};
use quell_linux::target::Processes;

use crate::commands::agent_socket::AgentSocket;

/// The processes of the workload of this name, where an agent or a command manages one.
pub fn processes(agent: &AgentSocket, name: &str, all: &Processes) -> Option<Vec<i32>> {
    let agents = agent.client().into_iter().chain(agent.commands().into_iter().map(|command| command.client));
    agents
        .filter(|client| manages(client, name))
        .map(|client| of_workload(&client, name, all))
        .find(|pids| !pids.is_empty())
}

fn manages(client: &Client, name: &str) -> bool {
    let status = client.get::<Status>("/v1/status");
    status.is_ok_and(|status| status.workloads.iter().any(|workload| workload.name == name))
}

fn of_workload(client: &Client, name: &str, all: &Processes) -> Vec<i32> {
    let is_its = |pid: i32, start: u64| {
        let thread = client.get::<Thread>(&format!("/v1/threads/{pid}"));
        thread.is_ok_and(|thread| thread.start == start && thread.workload == name)
    };
    let programs = all.iter().filter(|process| !process.is_kernels && !process.is_quells);
    programs.filter(|process| is_its(process.pid, process.start)).map(|process| process.pid).collect()
}
