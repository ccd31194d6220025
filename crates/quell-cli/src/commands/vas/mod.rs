//! `quell vas`: the smallest budget and period that leave a service's latency as on a whole CPU.

mod answer;
mod config;
mod demand;
mod page;
mod text;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{ArgGroup, Args};
use quell_model::Nanos;
use quell_policy::vas::{Margin, Poisson, Task, VasError};

use quell_command::{output, outputs, units};

/// The exit status where no interface keeps the bound.
const IMPOSSIBLE: u8 = 2;

/// Compute the budget and period that keep a service's latency as on a whole CPU
///
/// A service that behaves as its tasks declare, on one CPU with precedence there, never exhausts the budget: its jobs are
/// scheduled exactly as if the CPU were its own, and others have the rest (Li et al., RTNS 2021). Times have units; an
/// offset of 0 needs none. Exit status 2 if no budget and period keep a bound.
#[derive(Args)]
#[command(group(ArgGroup::new("demand").required(true)))]
pub struct Arguments {
    /// A TOML file with the tasks: `[[task]]` with offset, work and period
    #[arg(group = "demand", value_name = "FILE")]
    file: Option<PathBuf>,
    /// A task: when its first job comes, the longest time that a job needs, and the time between jobs (repeatable)
    #[arg(long, group = "demand", value_name = "OFFSET,WORK,PERIOD", allow_hyphen_values = true)]
    task: Vec<Task>,
    /// Requests at random instead: this many a second, and what each takes: constant:TIME, exponential:MEAN or
    /// lognormal:MEAN:SIGMA
    #[arg(long, group = "demand", value_name = "RATE,SERVICE", requires_all = ["bound", "period"])]
    poisson: Option<Poisson>,
    /// Jobs arrive a period or more apart, not exactly a period; offsets are ignored
    #[arg(long, conflicts_with = "poisson")]
    sporadic: bool,
    /// Percentage points of a CPU added for what the tasks do not cover: 5 turns 76 % into 81 %
    #[arg(long, default_value = "5", value_name = "POINTS", value_parser = demand::margin, allow_negative_numbers = true)]
    margin: Margin,
    /// The server's period [default: the one with the smallest share]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration, conflicts_with_all = ["blackout", "enforced"])]
    period: Option<Nanos>,
    /// Longest uninterrupted wait of others while the tasks behave as declared
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration, conflicts_with = "poisson")]
    blackout: Option<Nanos>,
    /// Longest uninterrupted wait of others whatever the tasks do; includes the margin
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration, conflicts_with = "poisson")]
    enforced: Option<Nanos>,
    /// With --poisson: the latency that counts, 0.99 for the 99th percentile
    #[arg(long, default_value_t = 0.99, requires = "poisson", allow_negative_numbers = true)]
    quantile: f64,
    /// With --poisson: it may be at most this
    #[arg(long, value_name = "TIME", requires = "poisson", value_parser = units::positive_duration)]
    bound: Option<Nanos>,
    /// Print the lines for `quell run`'s configuration
    #[arg(long, conflicts_with = "json")]
    config: bool,
    /// The workload's name there
    #[arg(long, default_value = "service", requires = "config")]
    name: String,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    /// Write a page with the share of the CPU over the period
    #[arg(long, value_name = "PAGE", conflicts_with = "poisson")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(path) = &arguments.html {
        outputs::check(path)?;
    }
    let answer = match answer::of(arguments) {
        Ok(answer) => answer,
        Err(error) => return refused(arguments, error),
    };
    if let Some(path) = &arguments.html
        && let Some(tasks) = &answer.tasks
    {
        let page = page::of(&answer, tasks).to_html();
        std::fs::write(path, page).with_context(|| format!("write {}", path.display()))?;
    }
    if arguments.json {
        output::json(answer.as_json())?;
    } else if arguments.config {
        write!(io::stdout().lock(), "{}", config::lines(&arguments.name, &answer))?;
    } else {
        writeln!(io::stdout().lock(), "{}", text::of(&answer, &quell_report::screen::Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// That no interface will do is an answer, too.
fn refused(arguments: &Arguments, error: anyhow::Error) -> Result<ExitCode> {
    let least = match error.downcast_ref() {
        Some(VasError::Impossible { least, .. }) => Some(least.0),
        Some(VasError::Never { .. }) => None,
        _ => return Err(error),
    };
    if arguments.json {
        output::json(serde_json::json!({ "impossible": { "least_ns": least, "why": error.to_string() } }))?;
    }
    eprintln!("quell: {error}");
    Ok(ExitCode::from(IMPOSSIBLE))
}
