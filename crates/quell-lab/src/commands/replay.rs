//! `quell-lab replay`: a recorded run through the policies again.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::ProgressBar;
use quell_agent::record::{Record, Replayed, Summary, With, replay};
use quell_model::Plan;
use quell_report::screen::Screen;
use quell_report::table::table;
use serde::Serialize;

use quell_command::output::stamped;
use quell_command::parameters;

/// Run a record (`quell run --record FILE`) through the policies again.
///
/// The recorded policies must give the recorded plans, byte for byte; the first difference is shown and the exit
/// status is 1. With --policy, show what another policy would have done on what was seen.
#[derive(Args)]
pub struct Arguments {
    /// The record
    file: PathBuf,
    /// What this policy would have done, instead of the recorded one
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// A parameter of that policy, such as run_budget=20ms; `quell doctor POLICY` lists them
    #[arg(long, value_name = "NAME=VALUE", requires = "policy")]
    set: Vec<String>,
    /// The layer whose place it takes, from 0
    #[arg(long, default_value_t = 0, requires = "policy")]
    layer: usize,
    /// Differences to show
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    show: usize,
    /// Print every step as a line of JSON, as it came out now, and the summary as the last one
    #[arg(long)]
    json: bool,
}

/// What a policy's plans held.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Held {
    knobs: u64,
    grants: u64,
    rules: u64,
    samples: u64,
    leases: u64,
}

impl Held {
    fn add(&mut self, plan: &Plan) {
        self.knobs += plan.knobs.len() as u64;
        self.grants += plan.grants.len() as u64;
        self.rules += plan.rules.len() as u64;
        self.samples += plan.samples.len() as u64;
        self.leases += plan.leases.len() as u64;
    }

    fn row(&self, name: String) -> Vec<String> {
        let counts = [self.knobs, self.grants, self.rules, self.samples, self.leases];
        [name].into_iter().chain(counts.iter().map(u64::to_string)).collect()
    }
}

/// One step as it came out.
#[derive(Serialize)]
struct Step<'a> {
    turn: u64,
    layer: usize,
    now_ns: u64,
    same: bool,
    plan: &'a Plan,
}

/// The whole replay.
#[derive(Serialize)]
struct Outcome {
    turns: u64,
    steps: u64,
    different: u64,
    lost: u64,
    torn: bool,
    recorded: Held,
    replayed: Held,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let with = match &arguments.policy {
        None => With::Recorded,
        Some(name) => {
            let policy = Box::new(parameters::policy(name, &arguments.set)?);
            With::Other { layer: arguments.layer, policy }
        }
    };
    let mut record = Record::open(&arguments.file)?;
    let layers: Vec<&str> = record.header().layers.iter().map(|start| start.policy.name()).collect();
    let title =
        format!("{}: {}, written by Quell {}", arguments.file.display(), layers.join(" + "), record.header().quell);
    let recorded_name = layers.get(arguments.layer).copied().unwrap_or("?").to_owned();

    let bar = ProgressBar::new_spinner().with_message("replaying");
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut different = 0;
    let mut shown: Vec<String> = Vec::new();
    let (mut recorded, mut replayed) = (Held::default(), Held::default());
    let mut trouble = None;
    let about_one = matches!(with, With::Other { .. }).then_some(arguments.layer);
    let summary = replay(&mut record, &with, |step| {
        if about_one.is_some_and(|layer| layer != step.layer) {
            return true;
        }
        // Of another policy only what it would have done is of interest, not how it says so.
        let same = if about_one.is_some() { same_commands(step) } else { step.is_same() };
        recorded.add(step.recorded);
        replayed.add(step.plan);
        if arguments.json {
            let line = Step { turn: step.turn, layer: step.layer, now_ns: step.view.now.0, same, plan: step.plan };
            trouble = print(&line).err();
        } else if !same && shown.len() < arguments.show {
            shown.push(difference(step));
        }
        different += u64::from(!same);
        bar.set_message(format!("replaying turn {}", step.turn));
        trouble.is_none()
    });
    bar.finish_and_clear();
    if let Some(error) = trouble {
        return Err(error).context("write a step");
    }
    let Summary { turns, steps, lost, torn } = summary?;
    let outcome = Outcome { turns, steps, different, lost, torn, recorded, replayed };
    let exact = about_one.is_some() || different == 0;
    if arguments.json {
        print(&stamped(&outcome))?;
    } else {
        let names = [recorded_name, arguments.policy.clone().unwrap_or_else(|| "replayed".to_owned())];
        write!(io::stdout().lock(), "{}", text(&title, &outcome, &names, &shown, about_one.is_some()))?;
    }
    Ok(if exact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print<T: Serialize>(line: &T) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, line)?;
    writeln!(out)
}

fn same_commands(step: &Replayed<'_>) -> bool {
    let commands = |plan: &Plan| Plan { notes: Vec::new(), leaves: None, ..plan.clone() };
    commands(step.recorded) == commands(step.plan)
}

fn difference(step: &Replayed<'_>) -> String {
    let json = |plan: &Plan| serde_json::to_string(plan).unwrap_or_else(|error| error.to_string());
    format!(
        "turn {}, layer {}, at {}:\n  recorded {}\n  now      {}",
        step.turn,
        step.layer,
        step.view.now,
        json(step.recorded),
        json(step.plan)
    )
}

fn text(title: &str, outcome: &Outcome, names: &[String; 2], shown: &[String], other: bool) -> String {
    let mut lines = vec![title.to_owned()];
    let verdict = match (other, outcome.different) {
        (false, 0) => "every plan is the recorded one, byte for byte".to_owned(),
        (false, count) => format!("{count} plans differ from the recorded ones"),
        (true, count) => format!("{count} plans differ: {} instead of {}", names[1], names[0]),
    };
    lines.push(format!("{} turns, {} steps: {verdict}", outcome.turns, outcome.steps));
    if outcome.lost > 0 {
        lines.push(format!("! {} turns are missing in the record; replay goes on after each gap", outcome.lost));
    }
    if outcome.torn {
        lines.push("! the record ends in the middle of a turn: its agent was killed".to_owned());
    }
    if other {
        lines.push(String::new());
        let head = ["commands", "knobs", "grants", "rules", "samples", "solo runs"];
        let rows = [outcome.recorded.row(names[0].clone()), outcome.replayed.row(names[1].clone())];
        lines.push(table(head, rows).fit(&Screen::here()));
        lines.push(format!(
            "What {} saw is what was measured under {}: its own commands had no effect on it.",
            names[1], names[0]
        ));
    }
    if !shown.is_empty() {
        lines.push(String::new());
        lines.push(format!("The first {}", if shown.len() == 1 { "difference" } else { "differences" }));
        lines.extend(shown.iter().cloned());
    }
    lines.join("\n") + "\n"
}
