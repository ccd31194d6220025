//! `quell check`: is a configuration right, and does it fit this machine?

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use quell_agent::config::{self, Config, EXAMPLE, Problems, Severity};
use quell_agent::run::agent;
use quell_linux::{HostOptions, LinuxHost, Roots};
use quell_model::Host;
use serde_json::json;

/// Say what is wrong with a configuration, with file, line and the mend
///
/// Reads the file and its drop-ins, checks every key, lets every policy decide once on this machine without writing
/// anything, and looks whether the workloads are there. Exit status 0 if `quell run` would start with it.
#[derive(Args)]
pub struct Arguments {
    /// The configuration
    #[arg(default_value = config::DEFAULT_PATH, value_name = "FILE")]
    file: PathBuf,
    /// Print an annotated example instead
    #[arg(long)]
    example: bool,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// Checks.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.example {
        print!("{EXAMPLE}");
        return Ok(ExitCode::SUCCESS);
    }
    let (config, problems) = examine(&arguments.file)?;
    if arguments.json {
        println!("{:#}", as_json(&problems));
    } else if !problems.0.is_empty() {
        eprintln!("{problems}");
    }
    match config {
        Some(config) if !problems.are_fatal() => {
            if !arguments.json {
                println!("{}", summary(&config));
            }
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            if !arguments.json {
                eprintln!("quell: refused: {}", count(problems.of(Severity::Error).count(), "error"));
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The configuration, if its files can be read at all, and everything that is wrong with it on this machine.
pub fn examine(file: &std::path::Path) -> Result<(Option<Config>, Problems)> {
    let config = match config::read(file) {
        Ok(config) => config,
        Err(problems) => return Ok((None, problems)),
    };
    let options = HostOptions {
        partitions: config.machine.partition,
        preemption_mode: config.machine.preemption,
        dry_run: true,
        ..HostOptions::default()
    };
    let host = LinuxHost::new(Roots::default(), options)?;
    let (config, fell_back) = crate::host::settle(config);
    let capabilities = crate::host::capabilities(&host.capabilities(), config.grants(), config.has_own_scheduler());
    let mut problems = agent::check(&config, &host.topology(), &capabilities);
    let granting = config.policies.iter().find(|layer| quell_model::Policy::describe(&layer.policy).grants);
    if let (Some(why), Some(layer)) = (fell_back, granting) {
        let what = format!("CPUs are granted by affinity, with policy guard beside: {why}");
        problems.warning(&layer.place, what);
    }
    Ok((Some(config), problems))
}

fn summary(config: &Config) -> String {
    let files: Vec<String> = config.files.iter().map(|file| file.display().to_string()).collect();
    let policies: Vec<&str> =
        config.policies.iter().map(|layer| quell_model::Policy::describe(&layer.policy).name).collect();
    format!(
        "{}: right; {} under {}",
        files.join(", "),
        count(config.workloads.len(), "workload"),
        policies.join(", then ")
    )
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn as_json(problems: &Problems) -> serde_json::Value {
    let problems: Vec<_> = problems
        .0
        .iter()
        .map(|problem| {
            json!({
                "severity": if problem.severity == Severity::Error { "error" } else { "warning" },
                "file": *problem.place.file,
                "line": problem.place.line,
                "column": problem.place.column,
                "what": problem.what,
            })
        })
        .collect();
    json!({ "problems": problems })
}
