//! `quell why`: the last decisions about a workload, with what was seen.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use quell_agent::AgentError;
use quell_agent::api::client::path_segment;
use quell_agent::api::wire::{Decision, DecisionKind, State, Why};
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;

use super::agent_socket::AgentSocket;
use quell_command::output;

use super::{cells, waits};

/// Show the last decisions about a workload, and what was measured when they were made.
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
    let mut answer = arguments.agent.client()?.get::<Why>(&path);
    for command in arguments.agent.commands() {
        let Err(error) = &answer else { break };
        let other = command.client.get(&path);
        if other.is_ok() || matches!(error, AgentError::NoAgent { .. }) {
            answer = other;
        }
    }
    let mut why = answer?;
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
    let head = match &why.workload {
        Some(workload) => format!(
            "{name} ({}), {}owned by {}: CPUs used {}, granted {}, latency {}{}",
            cells::class(workload.class),
            state.map_or(String::new(), |state| format!("{state}, ")),
            if workload.policies.is_empty() { "no policy".to_owned() } else { workload.policies.join(", ") },
            cells::got(workload),
            cells::granted(workload),
            cells::latency(workload),
            if workload.knobs.is_empty() { String::new() } else { format!("; set: {}", cells::knobs(workload)) },
        ),
        None => match (&why.configured, state) {
            (Some(configured), Some(state)) => format!("{name} ({}) is {state}", cells::class(configured.class)),
            _ => format!("{name} is no longer in the configuration"),
        },
    };
    let mut lines = vec![screen.wrap(&head)];
    let remarks = why.configured.iter().flat_map(|configured| cells::remarks(configured, why.workload.as_ref()));
    lines.extend(remarks.map(|line| screen.wrap(&line)));
    lines.extend(cells::not_exclusive(&why.workload));
    lines.extend(why.workload.as_ref().and_then(cells::over_budget));
    lines.extend(why.workload.iter().flat_map(waits::all).map(|line| screen.wrap(&line)));
    if let Some(configured) = why.configured.as_ref().filter(|configured| configured.state != State::Attached) {
        lines.push(format!("its selectors: {}", configured.selectors.join(", ")));
        lines.extend(configured.why.clone());
    }
    lines.extend(why.degraded.iter().map(|why| screen.wrap(&format!("! {why}"))));
    lines.push(String::new());
    if why.decisions.is_empty() {
        lines.push("nothing has been decided about it yet".to_owned());
    } else {
        let head = ["ago", "policy", "what", "CPUs used", "waiting", "queueing", "latency", "decision"];
        let rows = why.decisions.iter().map(|decision| row(why.now_ns, decision));
        lines.push(table(head, rows).least(["queueing", "waiting", "CPUs used", "latency", "policy"]).fit(screen));
    }
    if why.decisions_lost > 0 {
        lines.push(format!("! {} decisions were lost: they came faster than they could be read", why.decisions_lost));
    }
    lines.join("\n") + "\n"
}

fn row(now_ns: u64, decision: &Decision) -> Vec<String> {
    let seen = &decision.observed;
    let time = |ns: Option<u64>| ns.map_or(cells::NOTHING.to_owned(), human::nanoseconds);
    let number = |value: Option<f64>| value.map_or(cells::NOTHING.to_owned(), |value| format!("{value:.2}"));
    vec![
        ago(now_ns, decision),
        decision.policy.clone(),
        kind(decision.kind).to_owned(),
        number(seen.cpus_used),
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
        DecisionKind::Reason => "reason",
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

#[cfg(test)]
mod tests {
    use quell_agent::explain::Explanations;
    use quell_agent::record::{Record, Recorder, With, replay};
    use quell_agent::stack::{Layer, Stack, Witness};
    use quell_agent::watch::watch;
    use quell_model::{CpuCount, Host, Nanos, Topology};
    use quell_policy::AnyPolicy;
    use quell_sim::contention::ProfileName;
    use quell_sim::machine::Machine;
    use quell_sim::{KernelConfig, SimHost, WorkloadSpec};

    use super::*;

    /// A service beside a streaming antagonist under `edgeiso` with trials, recorded; the decisions about it.
    fn recorded(file: &std::path::Path) -> Vec<Decision> {
        let known = |name: &str| Some(ProfileName::Known(name.to_owned()));
        let service = WorkloadSpec::lc("service", CpuCount::whole(2)).busy(2);
        let batch = WorkloadSpec::be("batch").busy(2);
        let workloads = [
            WorkloadSpec { profile: known("memcached"), ..service },
            WorkloadSpec { profile: known("streaming"), ..batch },
        ];
        let machine = Machine::from(Topology::synthetic(1, 1, 4, 1));
        let mut host = SimHost::new(machine, KernelConfig::default(), &workloads, 1, false).unwrap();
        let layers = vec![Layer::new(AnyPolicy::named("edgeiso").unwrap(), None)];
        let mut stack = Stack::new(layers, host.view(), host.view().pool()).unwrap();
        let mut recorder = Recorder::start(file, stack.view(), stack.layers()).unwrap();
        let (mut writer, mut reader) = watch(stack.view(), stack.layers());
        let mut shown = Explanations::default();
        while host.now() < Nanos::from_secs(60) {
            let wake = stack.turn(&mut host).unwrap();
            writer.turned(stack.view(), stack.layers());
            recorder.turned(stack.view(), stack.layers());
            reader.decisions().for_each(|decision| shown.add(decision));
            host.wait(wake).unwrap();
        }
        drop(recorder);
        shown.of("service").unwrap()
    }

    #[test]
    fn a_recorded_trial_is_told_as_text_and_as_fields_and_replayed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("record");
        let decisions: Vec<Decision> = recorded(&file).into_iter().filter(|shown| shown.trial.is_some()).collect();
        let oldest = decisions.len() - decisions.len().min(4);
        let decisions = decisions[oldest..].to_vec();
        let fields: Vec<_> = decisions.iter().map(|shown| &shown.trial).collect();
        insta::assert_snapshot!("why_json", serde_json::to_string_pretty(&fields).unwrap());
        let why = Why {
            now_ns: 60_000_000_000,
            workload: None,
            configured: None,
            degraded: None,
            decisions,
            decisions_lost: 0,
        };
        insta::assert_snapshot!("why_text", text("service", &why, &Screen::UNBOUNDED));
        let (mut trials, mut different) = (0, 0);
        replay(&mut Record::open(&file).unwrap(), &With::Recorded, |step| {
            trials += step.plan.trials.len();
            different += usize::from(!step.is_same());
            true
        })
        .unwrap();
        assert!(trials >= 2 && different == 0, "{trials} trials, {different} plans differ");
    }
}
