//! A stack of policies beside the scene: `quell run` with a configuration made from it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quell_agent::api::Client;
use quell_agent::wire::Status;
use quell_model::CpuSet;
use quell_sim::WorkloadSpec;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use toml::{Table, Value};

use super::scenes::Treated;

/// The keys of a workload that a configuration has, too.
const KEYS: [&str; 8] = ["name", "class", "slo", "cpus", "limit", "reservation", "pausable", "demand"];
/// Those of their keys that are times.
const TIMES: [&str; 4] = ["bound", "budget", "period", "grace"];
/// Verifying a scheduler takes seconds, on a slow machine minutes.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running agent; ended and waited for when it is dropped.
pub struct Agent {
    child: Child,
    socket: PathBuf,
    _directory: TempDir,
}

/// A workload, and the selector by which the agent finds its threads.
pub type Selected<'a> = (&'a WorkloadSpec, Table);

impl Agent {
    /// The one that a treated scene needs, if it has policies; it manages these CPUs, or all.
    pub fn of(treated: &Treated, workloads: &[Selected<'_>], cpus: Option<&CpuSet>) -> Result<Option<Agent>> {
        let start = || Agent::start(&configuration(treated, workloads, cpus)?, workloads.len());
        (!treated.is_plain()).then(start).transpose()
    }

    /// Starts it and waits until it manages all workloads as configured.
    fn start(configuration: &str, workloads: usize) -> Result<Agent> {
        let directory = tempfile::tempdir().context("make a directory for the agent")?;
        let (config, socket) = (directory.path().join("quell.toml"), directory.path().join("api.sock"));
        std::fs::write(&config, configuration).context("write the configuration")?;
        let mut command = Command::new(crate::product::file()?);
        command.args(["run", "--quiet", "--config"]).arg(&config).arg("--socket").arg(&socket);
        command.arg("--run-dir").arg(directory.path()).stdin(Stdio::null()).stdout(Stdio::null());
        // It puts everything back and ends when this process does, however that ends.
        let ends_with_us = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?);
        // SAFETY: between fork and exec, one system call and no memory.
        unsafe { command.pre_exec(ends_with_us) };
        let child = command.spawn().context("start the agent")?;
        let mut agent = Agent { child, socket, _directory: directory };
        agent.await_all(workloads)?;
        Ok(agent)
    }

    /// Where its API is.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// It must not have ended.
    pub fn is_there(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the agent ended: {status}; what it said stands above"),
        }
    }

    fn await_all(&mut self, count: usize) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            self.is_there()?;
            let status: Option<Status> =
                Client::new(&self.socket).ok().and_then(|client| client.get("/v1/status").ok());
            if let Some(status) = status.filter(|status| status.workloads.len() == count) {
                match works(&status.agent.starting, &status.agent.degraded) {
                    Works::AsConfigured => return Ok(()),
                    Works::Without(why) => bail!("the agent works without Quell's scheduler: {why}"),
                    Works::NotYet => {}
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the agent does not manage all workloads as configured after {} s", PATIENCE.as_secs())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Whether what a scene is to be measured under is there: while Quell's scheduler is loaded, another one stands in.
#[derive(Debug, PartialEq)]
enum Works<'a> {
    NotYet,
    AsConfigured,
    Without(&'a str),
}

fn works<'a>(starting: &Option<String>, degraded: &'a Option<String>) -> Works<'a> {
    match (starting, degraded) {
        (Some(_), _) => Works::NotYet,
        (None, Some(why)) => Works::Without(why),
        (None, None) => Works::AsConfigured,
    }
}

fn configuration(treated: &Treated, workloads: &[Selected<'_>], cpus: Option<&CpuSet>) -> Result<String> {
    let Treated { treatment, scenario, stack, .. } = treated;
    let mut policies = Vec::new();
    for policy in &stack.policies {
        policies.push(Value::Table(Table::try_from(policy)?));
    }
    let mut tables = Vec::new();
    for (spec, selector) in workloads {
        let mut table = Table::try_from(spec)?;
        table.retain(|key, _| KEYS.contains(&key));
        table.iter_mut().for_each(with_units);
        table.insert("match".into(), Value::Array(vec![Value::Table(selector.clone())]));
        tables.push(Value::Table(table));
    }
    let mut all = Table::new();
    let mut machine = Table::new();
    let scheduler = stack.scheduler.unwrap_or(scenario.machine.scheduler());
    machine.insert("scheduler".into(), Value::try_from(scheduler)?);
    if let Some(cpus) = cpus {
        machine.insert("cpus".into(), Value::String(cpus.to_string()));
    }
    machine.insert("partition".into(), Value::Boolean(true));
    all.insert("machine".into(), Value::Table(machine));
    all.insert("agent".into(), Value::Table(treatment.agent.clone()));
    all.insert("policy".into(), Value::Array(policies));
    all.insert("workload".into(), Value::Array(tables));
    Ok(toml::to_string(&all)?)
}

/// Times have units in a configuration; in data they are nanoseconds.
fn with_units((key, value): (&String, &mut Value)) {
    match value {
        Value::Integer(ns) if TIMES.contains(&key.as_str()) => *value = Value::String(format!("{ns}ns")),
        Value::Table(table) => table.iter_mut().for_each(with_units),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_begins_only_under_what_it_is_to_be_measured_under() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(works(&text("loading Quell's scheduler"), &None), Works::NotYet);
        assert_eq!(works(&text("loading Quell's scheduler"), &text("another one ran")), Works::NotYet);
        assert_eq!(works(&None, &text("refused")), Works::Without("refused"));
        assert_eq!(works(&None, &None), Works::AsConfigured);
    }
}
