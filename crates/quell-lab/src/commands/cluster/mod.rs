//! `quell-lab cluster`: placement over simulated hosts.

/// As `println!`, but an output that is full or closed is an error.
macro_rules! out {
    ($($text:tt)*) => { writeln!(io::stdout(), $($text)*)? };
}

#[cfg(feature = "kubernetes")]
mod fake_nodes;
mod live;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use quell_cluster::policy;
use quell_cluster::report::{Names, WorkloadReport, of_workload};
use quell_cluster_sim::scenario::{Grain, SHIPPED, Scenario};
use quell_cluster_sim::sim::{Cluster, Summary};
use quell_cluster_sim::{grains, report};
use quell_model::WorkloadId;
use quell_report::screen::Screen;
use quell_report::table::table;
use rayon::prelude::*;

/// Placement by contention over a simulated cluster, and what its alternatives do in the same scenario
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario under one policy or more, side by side
    Run {
        /// A shipped scenario's name, or a file
        #[arg(required_unless_present = "list")]
        scenario: Option<String>,
        /// List scenarios and policies
        #[arg(long)]
        list: bool,
        /// Only these policies
        #[arg(
            long,
            value_delimiter = ',',
            value_name = "NAME,…",
            default_value = "none,random,least-allocated,drs,sdc-published,sdc-global"
        )]
        against: Vec<String>,
        /// How hosts are simulated [default: as the scenario says]
        #[arg(long)]
        grain: Option<Grain>,
        /// Runs of each policy, with seeds from the scenario's on
        #[arg(long, default_value_t = 1)]
        seeds: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check a scenario, and report what is in it
    Check {
        /// A shipped scenario's name, or a file
        scenario: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Live(live::Arguments),
    #[cfg(feature = "kubernetes")]
    FakeNodes(fake_nodes::Arguments),
    /// Report where a workload is at a scenario's end and which moves were made for it
    Why {
        /// A shipped scenario's name, or a file
        scenario: String,
        /// The workload's number
        workload: u32,
        /// The policy
        #[arg(long, default_value = "sdc-global")]
        policy: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a scenario in both grains, and report how far the coarse one can be trusted
    Grains {
        /// A shipped scenario's name, or a file
        scenario: String,
        /// The policy
        #[arg(long, default_value = "none")]
        policy: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a scenario under a policy and write each turn's events and plan as lines of JSON
    Record {
        /// A shipped scenario's name, or a file
        scenario: String,
        /// The file to write
        file: PathBuf,
        /// The policy
        #[arg(long, default_value = "sdc-global")]
        policy: String,
    },
    /// Run a recorded scenario again and report whether its plans are the same
    Replay {
        /// A shipped scenario's name, or a file
        scenario: String,
        /// The record
        file: PathBuf,
    },
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Run { scenario: Some(scenario), list: false, against, grain, seeds, json } => {
            let scenario = read(scenario)?;
            let grain = grain.unwrap_or(scenario.grain);
            sim(&Scenario { grain, ..scenario }, against, (*seeds).max(1), *json)
        }
        Command::Run { .. } => list(),
        Command::Check { scenario, json } => check(&read(scenario)?, *json),
        Command::Live(arguments) => live::run(arguments, &read(&arguments.scenario)?),
        #[cfg(feature = "kubernetes")]
        Command::FakeNodes(arguments) => fake_nodes::run(arguments, &read(&arguments.scenario)?),
        Command::Why { scenario, workload, policy, json } => {
            let report = why(&read(scenario)?, WorkloadId(*workload), policy)?;
            let text = if *json { serde_json::to_string_pretty(&report)? } else { report.text(&Screen::of_output()) };
            print(&text)
        }
        Command::Grains { scenario, policy, json } => grains(&read(scenario)?, policy, *json),
        Command::Record { scenario, file, policy } => record(&read(scenario)?, policy, file),
        Command::Replay { scenario, file } => replay(&read(scenario)?, file),
    }
}

fn print(text: &str) -> Result<ExitCode> {
    writeln!(io::stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

fn read(name: &str) -> Result<Scenario> {
    let is_file = name.contains('/') || name.ends_with(".toml");
    if !is_file {
        return Ok(Scenario::shipped(name)?);
    }
    let text = fs::read_to_string(name).with_context(|| format!("reading {name}"))?;
    Scenario::parse(&text).with_context(|| name.to_owned())
}

fn list() -> Result<ExitCode> {
    let screen = Screen::of_output();
    let scenario = |(name, text): &(&str, &str)| {
        Ok(vec![(*name).to_owned(), Scenario::parse(text).with_context(|| (*name).to_owned())?.about])
    };
    let scenarios: Vec<Vec<String>> = SHIPPED.iter().map(scenario).collect::<Result<_>>()?;
    out!("{}\n", table(["scenario", "about"], scenarios).fit(&screen));
    let policies = policy::ALL.iter().map(|policy| vec![policy.name, policy.summary, policy.source]);
    out!("{}", table(["policy", "what it does", "source"], policies).fit(&screen));
    Ok(ExitCode::SUCCESS)
}

fn sim(scenario: &Scenario, policies: &[String], seeds: u64, json: bool) -> Result<ExitCode> {
    let begun = Instant::now();
    let jobs: Vec<(&String, u64)> =
        policies.iter().flat_map(|policy| (0..seeds).map(move |seed| (policy, scenario.seed + seed))).collect();
    let one = |(policy, seed): (&String, u64)| -> Result<Summary> {
        Ok(Cluster::simulate(scenario, policy, seed, |_, _| ())?.summary)
    };
    let runs: Vec<Summary> = jobs.into_par_iter().map(one).collect::<Result<_>>()?;
    if json {
        return print(&serde_json::to_string_pretty(&runs)?);
    }
    let by_policy: Vec<Vec<Summary>> = runs.chunks(seeds as usize).map(<[Summary]>::to_vec).collect();
    out!("{}\n", scenario.about);
    out!("{}", report::compared(&by_policy).fit(&Screen::of_output()));
    let seeds = if seeds == 1 { "one seed".to_owned() } else { format!("means of {seeds} seeds") };
    out!("\n{seeds}, {} simulated each, in {:.1} s", scenario.lasts, begun.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

fn check(scenario: &Scenario, json: bool) -> Result<ExitCode> {
    if json {
        return print(&serde_json::to_string_pretty(scenario)?);
    }
    let hosts: u32 = scenario.host.iter().map(|host| host.count).sum();
    let workloads: u32 = scenario.workloads.iter().map(|group| group.count).sum();
    out!("{}\n{hosts} hosts, {workloads} workloads at the beginning, {} simulated", scenario.about, scenario.lasts);
    Ok(ExitCode::SUCCESS)
}

fn why(scenario: &Scenario, id: WorkloadId, policy: &str) -> Result<WorkloadReport> {
    let mut kind = String::new();
    let outcome = Cluster::simulate(scenario, policy, scenario.seed, |cluster, _| kind = cluster.kind(id).to_owned())?;
    let workloads = &outcome.view.workloads;
    if !workloads.present.get(id.index()).copied().unwrap_or(false) {
        bail!("there is no workload {} at the end: give 0 to {}", id.0, workloads.len().saturating_sub(1));
    }
    let mut names = vec![String::new(); id.index()];
    names.push(kind);
    Ok(of_workload(&outcome.view, &outcome.judged, id, &Names { workloads: &names, hosts: &[] }))
}

fn grains(scenario: &Scenario, policy: &str, json: bool) -> Result<ExitCode> {
    let begun = Instant::now();
    let compared = grains::compare(scenario, policy, scenario.seed)?;
    if json {
        return print(&serde_json::to_string_pretty(&compared)?);
    }
    out!("{}\n\n{}\n", scenario.about, compared.table().fit(&Screen::of_output()));
    out!("hosts in the same order by contention: {} of {} rounds", compared.same_order, compared.rounds);
    out!("pairs of hosts in the same order: {} of {}", compared.same_pairs, compared.pairs);
    out!("{} simulated in both grains, in {:.1} s", scenario.lasts, begun.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

fn lines(scenario: &Scenario, policy: &str) -> Result<Vec<String>> {
    let mut lines = vec![serde_json::to_string(policy)?];
    let mut failed = None;
    Cluster::simulate(scenario, policy, scenario.seed, |_, stack| {
        for layer in stack.stepped().filter(|layer| !layer.events.is_empty() || !layer.plan.is_empty()) {
            match serde_json::to_string(&(stack.view().now, &layer.events, &layer.plan)) {
                Ok(line) => lines.push(line),
                Err(error) => failed = Some(error),
            }
        }
    })?;
    failed.map_or(Ok(lines), |error| Err(error.into()))
}

fn record(scenario: &Scenario, policy: &str, path: &PathBuf) -> Result<ExitCode> {
    let lines = lines(scenario, policy)?;
    let mut file = fs::File::create(path).with_context(|| format!("creating {}", path.display()))?;
    file.write_all((lines.join("\n") + "\n").as_bytes()).with_context(|| format!("writing {}", path.display()))?;
    out!("{} turns in {}", lines.len() - 1, path.display());
    Ok(ExitCode::SUCCESS)
}

fn replay(scenario: &Scenario, path: &PathBuf) -> Result<ExitCode> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let recorded: Vec<&str> = text.lines().collect();
    let policy: String = serde_json::from_str(recorded.first().copied().unwrap_or_default())
        .with_context(|| format!("{} is not a record of a simulated cluster", path.display()))?;
    let now = lines(scenario, &policy)?;
    if let Some(at) =
        (0..recorded.len().max(now.len())).find(|at| recorded.get(*at).copied() != now.get(*at).map(String::as_str))
    {
        out!("turn {at} differs: another scenario or another version made this record");
        return Ok(ExitCode::FAILURE);
    }
    out!("{} turns, all with the same plans", now.len() - 1);
    Ok(ExitCode::SUCCESS)
}
