//! The process that plays one workload.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use quell_model::Nanos;
use quell_play::{Course, Pace};
use quell_sim::scenario::Scenario;

/// What the parent says to the child; users do not.
#[derive(Args)]
pub struct Part {
    /// Play only this workload: the course comes on standard input
    #[arg(long, hide = true, requires = "pace")]
    only: Option<String>,
    /// Steps of work a microsecond
    #[arg(long, hide = true)]
    pace: Option<String>,
}

/// A part that is asked for.
pub struct Asked {
    name: String,
    pace: Pace,
}

impl Part {
    /// What is asked for, if this is a child.
    pub fn asked(&self) -> Result<Option<Asked>> {
        let Some(name) = self.only.clone() else { return Ok(None) };
        let pace = serde_json::from_str(self.pace.as_deref().unwrap_or_default()).context("read --pace")?;
        Ok(Some(Asked { name, pace }))
    }
}

/// The line by which a child learns its course.
pub fn line(course: Course) -> String {
    format!("{} {} {}\n", course.begin.0, course.from.0, course.end.0)
}

/// Plays it and prints what became of it. Ends with its parent.
pub fn play(scenario: &Scenario, asked: &Asked) -> Result<ExitCode> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // A session of its own is a group of its own where autogroups are on.
    rustix::process::setsid().context("begin a session")?;
    let place = scenario.workloads.iter().position(|spec| spec.name == asked.name);
    let Some(place) = place else { bail!("there is no workload '{}'", asked.name) };
    let (spec, graph) = (scenario.workloads[place].clone(), scenario.graphs());
    let part = quell_play::Part { spec, graph, place, seed: scenario.seed };
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("read the course")?;
    let times: Vec<u64> = line.split_whitespace().filter_map(|time| time.parse().ok()).collect();
    let [begin, from, end] = times[..] else { bail!("no course was given") };
    let course = Course { begin: Nanos(begin), from: Nanos(from), end: Nanos(end) };
    let played = quell_play::play(&part, course, asked.pace)?;
    writeln!(io::stdout(), "{}", serde_json::to_string(&played)?)?;
    Ok(ExitCode::SUCCESS)
}
