//! `quell-cluster`: placement over hosts, simulated.

mod run;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use quell_cluster::grains;
use quell_cluster::policy;
use quell_cluster::report::{self, Told};
use quell_cluster::scenario::{Grain, SHIPPED, Scenario};
use quell_cluster::sim::{Cluster, Summary};
use quell_model::WorkloadId;
use quell_report::screen::Screen;
use quell_report::table::table;
use rayon::prelude::*;
use run::{Folder, Run};

/// Placement by contention over a cluster of hosts, and what its alternatives do in the same scenario.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a scenario under one policy or more, side by side.
    Sim {
        /// A shipped scenario's name, or a file.
        scenario: Option<String>,
        /// Lists scenarios and policies.
        #[arg(long)]
        list: bool,
        /// Policies, separated by commas.
        #[arg(long, value_delimiter = ',', default_value = "none,random,least-allocated,drs,sdc-published,sdc-global")]
        policy: Vec<String>,
        /// How hosts are simulated [default: as the scenario says].
        #[arg(long)]
        grain: Option<Grain>,
        /// Runs of each policy, with seeds from the scenario's on.
        #[arg(long, default_value_t = 1)]
        seeds: u64,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Checks a scenario, and says what is in it.
    Check {
        /// A shipped scenario's name, or a file.
        scenario: String,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Controls a cluster in real time until it is over: today a simulated one, which goes on also while no one controls it.
    Run {
        /// A shipped scenario's name, or a file.
        scenario: String,
        /// The policy.
        #[arg(long, default_value = "sdc-global")]
        policy: String,
        /// Its seconds for one of the clock's.
        #[arg(long, default_value_t = 1.0)]
        speed: f64,
        /// Begins anew, whatever is there.
        #[arg(long)]
        fresh: bool,
        #[command(flatten)]
        folder: Folder,
    },
    /// Says how a cluster is that `run` controls.
    Status {
        #[command(flatten)]
        folder: Folder,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Says where a workload is and which moves were made for it: of a running cluster, or at a scenario's end.
    Why {
        /// The workload's number; before it a scenario, shipped or a file, that is run to its end.
        #[arg(required = true, num_args = 1..=2, value_names = ["SCENARIO", "WORKLOAD"])]
        what: Vec<String>,
        /// The policy of the scenario's run.
        #[arg(long, default_value = "sdc-global")]
        policy: String,
        #[command(flatten)]
        folder: Folder,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Runs a scenario in both grains, and says how far the coarse one can be trusted.
    Grains {
        /// A shipped scenario's name, or a file.
        scenario: String,
        /// The policy.
        #[arg(long, default_value = "none")]
        policy: String,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Runs a scenario under a policy and writes each turn's events and plan as lines of JSON.
    Record {
        /// A shipped scenario's name, or a file.
        scenario: String,
        /// The file to write.
        file: PathBuf,
        /// The policy.
        #[arg(long, default_value = "sdc-global")]
        policy: String,
    },
    /// Runs a recorded scenario again and says whether the same plans come out.
    Replay {
        /// A shipped scenario's name, or a file.
        scenario: String,
        /// The record.
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    match execute(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn execute(command: Command) -> Result<ExitCode> {
    match command {
        Command::Sim { list: true, .. } | Command::Sim { scenario: None, .. } => list(),
        Command::Sim { scenario: Some(scenario), policy, grain, seeds, json, .. } => {
            let scenario = read(&scenario)?;
            let grain = grain.unwrap_or(scenario.grain);
            sim(&Scenario { grain, ..scenario }, &policy, seeds.max(1), json)
        }
        Command::Check { scenario, json } => check(&read(&scenario)?, json),
        Command::Run { scenario, policy, speed, fresh, folder } => {
            run::run(&Run { scenario: &read(&scenario)?, policy: &policy, speed, fresh }, &folder)
        }
        Command::Status { folder, json } => run::status(&folder, json),
        Command::Why { what, policy, folder, json } => {
            let number = &what[what.len() - 1];
            let id = number.parse().map(WorkloadId).with_context(|| format!("{number} is no workload's number"))?;
            let told = match &what[..what.len() - 1] {
                [scenario] => why(&read(scenario)?, id, &policy)?,
                _ => run::told(&folder, id)?,
            };
            if json {
                println!("{}", serde_json::to_string_pretty(&told)?);
            } else {
                println!("{}", told.text(&Screen::of_output()));
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Grains { scenario, policy, json } => grains(&read(&scenario)?, &policy, json),
        Command::Record { scenario, file, policy } => record(&read(&scenario)?, &policy, &file),
        Command::Replay { scenario, file } => replay(&read(&scenario)?, &file),
    }
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
    println!("{}\n", table(["scenario", "about"], scenarios).fit(&screen));
    let policies = policy::ALL.iter().map(|policy| vec![policy.name, policy.summary, policy.source]);
    println!("{}", table(["policy", "what it does", "source"], policies).fit(&screen));
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
        println!("{}", serde_json::to_string_pretty(&runs)?);
        return Ok(ExitCode::SUCCESS);
    }
    let by_policy: Vec<Vec<Summary>> = runs.chunks(seeds as usize).map(<[Summary]>::to_vec).collect();
    println!("{}\n", scenario.about);
    println!("{}", report::compared(&by_policy).fit(&Screen::of_output()));
    let seeds = if seeds == 1 { "one seed".to_owned() } else { format!("means of {seeds} seeds") };
    println!("\n{seeds}, {} simulated each, in {:.1} s", scenario.lasts, begun.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

fn check(scenario: &Scenario, json: bool) -> Result<ExitCode> {
    if json {
        println!("{}", serde_json::to_string_pretty(scenario)?);
        return Ok(ExitCode::SUCCESS);
    }
    let hosts: u32 = scenario.host.iter().map(|host| host.count).sum();
    let workloads: u32 = scenario.workloads.iter().map(|group| group.count).sum();
    println!("{}\n{hosts} hosts, {workloads} workloads at the beginning, {} simulated", scenario.about, scenario.lasts);
    Ok(ExitCode::SUCCESS)
}

fn why(scenario: &Scenario, id: WorkloadId, policy: &str) -> Result<Told> {
    let mut kind = String::new();
    let outcome = Cluster::simulate(scenario, policy, scenario.seed, |cluster, _| kind = cluster.kind(id).to_owned())?;
    let workloads = &outcome.view.workloads;
    if !workloads.present.get(id.index()).copied().unwrap_or(false) {
        bail!("there is no workload {} at the end: give 0 to {}", id.0, workloads.len().saturating_sub(1));
    }
    Ok(report::told(&outcome.view, &outcome.judged, id, &kind))
}

fn grains(scenario: &Scenario, policy: &str, json: bool) -> Result<ExitCode> {
    let begun = Instant::now();
    let compared = grains::compare(scenario, policy, scenario.seed)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&compared)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}\n\n{}\n", scenario.about, compared.table().fit(&Screen::of_output()));
    println!("hosts in the same order by contention: {} of {} rounds", compared.same_order, compared.rounds);
    println!("pairs of hosts in the same order: {} of {}", compared.same_pairs, compared.pairs);
    println!("{} simulated in both grains, in {:.1} s", scenario.lasts, begun.elapsed().as_secs_f64());
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
    println!("{} turns in {}", lines.len() - 1, path.display());
    Ok(ExitCode::SUCCESS)
}

fn replay(scenario: &Scenario, path: &PathBuf) -> Result<ExitCode> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let recorded: Vec<&str> = text.lines().collect();
    let policy: String = serde_json::from_str(recorded.first().copied().unwrap_or_default())
        .with_context(|| format!("{} is no record of quell-cluster", path.display()))?;
    let now = lines(scenario, &policy)?;
    if let Some(at) =
        (0..recorded.len().max(now.len())).find(|at| recorded.get(*at).copied() != now.get(*at).map(String::as_str))
    {
        println!("turn {at} differs: another scenario or another version made this record");
        return Ok(ExitCode::FAILURE);
    }
    println!("{} turns, all with the same plans", now.len() - 1);
    Ok(ExitCode::SUCCESS)
}
