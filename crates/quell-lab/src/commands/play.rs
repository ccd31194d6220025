//! `quell-lab play`: a scenario as real threads or programs under this machine's kernel.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use quell_command::{output, units};
use quell_model::{CpuSet, Nanos};
use quell_report::screen::Screen;

use crate::play::{Play, Row, table};

/// Play a scenario's workloads as real threads on this machine
///
/// The same file as `quell-lab sim`, the same random numbers; the kernel that runs here schedules. Each workload is a process,
/// in a control group of its own where cgroup v2 is there (else in a session of its own), and stacks of policies run as
/// `quell run` would run them. It is said which workloads cannot be played. In a real kernel with sched_ext, on any
/// machine: quell-lab lab run -- quell-lab play SCENARIO.
#[derive(Args)]
pub struct Arguments {
    /// A file, a scenario's or a figure's, or the name of a scenario that comes with Quell
    scenario: PathBuf,
    /// Only these stacks (of a figure, treatments); `none` is Linux as it is
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    policies: Vec<String>,
    /// Change a value, as in --set workload.server.threads=4
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The first repetition's seed [default: the scenario's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Length of the measured part [default: the scenario's]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    duration: Option<Nanos>,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
    /// Real programs instead of threads: a server is memcached under `quell load`, work without end is `quell antagonist`
    #[arg(long)]
    programs: bool,
    /// CPUs of the load generators alone, as in 4 or 4-5, one each in turn; all else runs on the others [default: no such CPUs]
    #[arg(long, value_name = "CPUS", requires = "programs")]
    generators: Option<CpuSet>,
    /// Treat the scene in the ways of this file, which has `[[treatment]]`s as a figure has [default: a figure's own, or with
    /// --programs those of `quell-lab lab peers`]
    #[arg(long, value_name = "FILE")]
    treatments: Option<PathBuf>,
}

/// Plays the scene under each stack in turn.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let rows = arguments.play().rows()?;
    let mut out = io::stdout().lock();
    if arguments.json {
        let rows: Vec<_> = rows.iter().map(Row::report).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&output::stamped(serde_json::json!({ "rows": rows })))?)?;
    } else {
        writeln!(out, "{}", table::of(&rows).fit(&Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn play(&self) -> Play {
        Play {
            scene: self.scenario.clone(),
            policies: self.policies.clone(),
            set: self.set.clone(),
            seed: self.seed,
            duration: self.duration,
            programs: self.programs,
            generators: self.generators,
            treatments: self.treatments.clone(),
        }
    }
}
