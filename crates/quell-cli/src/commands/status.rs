//! `quell status`: what the agent does, once.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use quell_agent::api::wire::{Cpu, CpuState, Status};
use quell_bench::human;
use quell_bench::table::table;

use super::agent_socket::AgentSocket;
use super::cells;

/// Show what the running agent does: policies, workloads, CPUs.
///
/// `quell top` shows the same, live; `quell why WORKLOAD` the last decisions.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    agent: AgentSocket,
    /// Print the whole status as JSON (`GET /v1/status`)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let status: Status = arguments.agent.client()?.get("/v1/status")?;
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer(&mut out, &status)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", text(&status))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The status for people.
fn text(status: &Status) -> String {
    let agent = &status.agent;
    let mut lines = vec![format!(
        "Quell {} ({}) on the {} host: process {}, {} turns, {:.1} s of CPU time, {} resident",
        agent.version,
        agent.mode,
        agent.host,
        agent.pid,
        status.turns,
        agent.cpu_seconds,
        human::bytes(agent.resident_bytes),
    )];
    if let Some(recording) = &agent.recording {
        let trouble = recording.failed.as_ref().map_or(String::new(), |why| format!("; it ended: {why}"));
        let (turns, lost) = (recording.turns, recording.lost);
        lines.push(format!("recording to {}: {turns} turns, {lost} lost{trouble}", recording.file));
    }
    lines.push(String::new());
    let layers = status.layers.iter().map(|layer| {
        let owns = layer.workloads.as_ref().map_or("all workloads".to_owned(), |names| names.join(", "));
        let counts = [layer.steps, layer.knobs, layer.grants, layer.refused].map(|count| count.to_string());
        let mut row = vec![layer.policy.clone(), owns, layer.pool.clone()];
        row.extend(counts);
        row
    });
    let head = ["policy", "owns", "CPUs", "steps", "knobs", "grants", "refused"];
    lines.push(table(head, layers).to_string());
    lines.push(String::new());
    if status.workloads.is_empty() {
        lines.push("no workload is attached".to_owned());
    } else {
        let head = ["workload", "class", "granted", "CPUs got/asked", "waiting", "queueing", "latency/SLO", "knobs"];
        let rows = status.workloads.iter().map(|workload| {
            vec![
                workload.name.clone(),
                cells::class(workload.class).to_owned(),
                cells::granted(workload),
                cells::got(workload),
                cells::waiting(workload),
                cells::queueing(workload),
                cells::latency(workload),
                workload.knobs.join(", "),
            ]
        });
        lines.push(table(head, rows).to_string());
    }
    lines.push(String::new());
    lines.extend(cpus(&status.cpus));
    if status.decisions_lost > 0 {
        lines.push(format!("! {} decisions came faster than they could be read", status.decisions_lost));
    }
    lines.extend(agent.limits.iter().map(|limit| format!("! {limit}")));
    lines.join("\n") + "\n"
}

/// CPUs by what they do, one line each.
fn cpus(cpus: &[Cpu]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    for cpu in cpus {
        let what = match (&cpu.runs, cpu.state) {
            (_, CpuState::Offline) => "offline".to_owned(),
            (_, CpuState::Banned) => "parked by a sibling ban".to_owned(),
            (None, CpuState::Away) => "a real-time thread".to_owned(),
            (Some(name), _) => name.clone(),
            (None, CpuState::Idle) => "idle".to_owned(),
            (None, _) => "unmanaged work or nothing".to_owned(),
        };
        match groups.iter_mut().find(|(known, _)| *known == what) {
            Some((_, members)) => members.push(cpu.cpu),
            None => groups.push((what, vec![cpu.cpu])),
        }
    }
    let line = |(what, members): (String, Vec<u32>)| {
        let set: quell_model::CpuSet = members.into_iter().map(quell_model::CpuId).collect();
        format!("CPUs {set}: {what}")
    };
    groups.into_iter().map(line).collect()
}
