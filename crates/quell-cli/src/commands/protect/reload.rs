//! After a drop-in was written or removed: a running agent reads its configuration again.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quell_agent::api::wire::{Agent, Status};
use rustix::process::{Pid, Signal, kill_process};

use crate::commands::agent_socket::AgentSocket;

/// An agent takes a configuration within this time.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a reload is to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The workload is managed.
    Managed,
    /// It is configured; it need not run.
    Known,
    /// It is configured no more.
    Removed,
}

/// What came of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No agent runs.
    NoAgent,
    /// It has read the configuration, and does not manage the workload.
    Waits,
    /// It manages the workload.
    Manages,
}

/// Asks a running agent to read its configuration again, and waits until it has.
///
/// # Errors
/// If it refuses it.
pub fn reload(agent: &AgentSocket, workload: &str, expected: Expected) -> Result<Answer> {
    let client = agent.client()?;
    let Ok(status) = client.get::<Status>("/v1/status") else { return Ok(Answer::NoAgent) };
    let Agent { pid, not_reloaded: before, .. } = status.agent;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("the agent's pid is unknown")?;
    kill_process(pid, Signal::HUP)
        .with_context(|| format!("cannot ask the agent to read it: kill -HUP {}", pid.as_raw_nonzero()))?;
    let (begun, mut waits) = (Instant::now(), None);
    while begun.elapsed() < PATIENCE {
        if let Ok(status) = client.get::<Status>("/v1/status") {
            let known = status.configured.iter().find(|known| known.name == workload);
            let is_managed = status.workloads.iter().any(|managed| managed.name == workload);
            let is_done = match expected {
                Expected::Managed => is_managed,
                Expected::Known => known.is_some(),
                Expected::Removed => known.is_none(),
            };
            if is_done {
                return Ok(if is_managed { Answer::Manages } else { Answer::Waits });
            }
            waits = known.and_then(|known| known.why.clone());
            if let Some(refused) = status.agent.not_reloaded.filter(|refused| before.as_ref() != Some(refused)) {
                bail!("it is written, but the agent refused it: {}", refused.why.lines().next().unwrap_or_default());
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    if let Some(why) = waits {
        bail!("it is written, but the agent does not manage it yet: {why}");
    }
    bail!("it is written, but the agent has not reloaded it within {} s: see `quell status`", PATIENCE.as_secs())
}
