//! `quell why`: the last decisions about a workload, with what was seen.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use quell_agent::api::client::path_segment;
use quell_agent::api::wire::{Decision, DecisionKind, State, Why};
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;

use super::agent_socket::AgentSocket;
use super::{cells, output};

/// Show the last decisions about a workload, and what was seen when they were made.
#[derive(Args)]
pub struct Arguments {
    /// The workload's name
    workload: String,
    #[command(flatten)]
    agent: AgentSocket,
    /// Show at most this many decisions, the newest first
    #[arg(long, short = 'n', default_value_t = 20)]
    last: usize,
    /// Print them as JSON (`GET /v1/why/WORKLOAD`)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let path = format!("/v1/why/{}", path_segment(&arguments.workload));
    let mut why: Why = arguments.agent.client()?.get(&path)?;
    why.decisions.truncate(arguments.last);
    if arguments.json {
        output::json_line(&why)?;
    } else {
        write!(io::stdout(), "{}", text(&arguments.workload, &why, &Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The decisions for people.
fn text(name: &str, why: &Why, screen: &Screen) -> String {
    let state = why.configured.as_ref().map(|configured| cells::state(configured, why.now_ns));
    let mut lines = vec![match &why.workload {
        Some(workload) => format!(
            "{name} ({}), {}owned by {}: CPUs got {}, granted {}, latency {}{}",
            cells::class(workload.class),
            state.map_or(String::new(), |state| format!("{state}, ")),
            if workload.policies.is_empty() { "no policy".to_owned() } else { workload.policies.join(", ") },
            cells::got(workload),
            cells::granted(workload),
            cells::latency(workload),
            if workload.knobs.is_empty() { String::new() } else { format!("; set: {}", workload.knobs.join(", ")) },
        ),
        None => match (&why.configured, state) {
            (Some(configured), Some(state)) => format!("{name} ({}) is {state}", cells::class(configured.class)),
            _ => format!("{name} is not in the configuration any more"),
        },
    }];
    lines.extend(cells::not_exclusive(&why.workload));
    lines.extend(why.workload.as_ref().and_then(cells::over_budget));
    if let Some(configured) = why.configured.as_ref().filter(|configured| configured.state != State::Attached) {
        lines.push(format!("it looks for: {}", configured.looks_for.join(", ")));
        lines.extend(configured.why.clone());
    }
    lines.extend(why.degraded.iter().map(|why| screen.wrap(&format!("! {why}"))));
    lines.push(String::new());
    if why.decisions.is_empty() {
        lines.push("nothing has been decided about it yet".to_owned());
    } else {
        let head = ["ago", "policy", "what", "CPUs got", "waiting", "queueing", "latency", "decision"];
        let rows = why.decisions.iter().map(|decision| row(why.now_ns, decision));
        lines.push(table(head, rows).least(["queueing", "waiting", "CPUs got", "latency", "policy"]).fit(screen));
    }
    if why.decisions_lost > 0 {
        lines.push(format!("! {} decisions came faster than they could be read", why.decisions_lost));
    }
    lines.join("\n") + "\n"
}

fn row(now_ns: u64, decision: &Decision) -> Vec<String> {
    let seen = &decision.seen;
    let time = |ns: Option<u64>| ns.map_or(cells::NOTHING.to_owned(), human::nanoseconds);
    let number = |value: Option<f64>| value.map_or(cells::NOTHING.to_owned(), |value| format!("{value:.2}"));
    vec![
        ago(now_ns, decision),
        decision.policy.clone(),
        kind(decision.kind).to_owned(),
        number(seen.cpus_got),
        number(seen.threads_waiting),
        time(seen.queueing_delay_ns),
        time(seen.latency_ns),
        sentence(decision),
    ]
}

/// How long ago a decision was made.
pub fn ago(now_ns: u64, decision: &Decision) -> String {
    human::nanoseconds(now_ns.saturating_sub(decision.at_ns))
}

/// A decision's kind in one word.
pub fn kind(kind: DecisionKind) -> &'static str {
    match kind {
        DecisionKind::Because => "because",
        DecisionKind::Warning => "warning",
        DecisionKind::Refused => "refused",
        DecisionKind::Knob => "set",
        DecisionKind::Grant => "grant",
        DecisionKind::Rule => "rule",
        DecisionKind::Solo => "solo run",
        DecisionKind::Trial => "trial",
    }
}

/// A decision in words, with how often it was made in a row.
pub fn sentence(decision: &Decision) -> String {
    match decision.times {
        1 => decision.text.clone(),
        times => {
            let span = decision.at_ns.saturating_sub(decision.since_ns);
            format!("{} (×{times} in {})", decision.text, human::nanoseconds(span))
        }
    }
}
