//! The process that plays one workload.

use std::io::{self, BufRead};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use quell_command::request::Request;
use quell_model::Nanos;
use quell_play::{Course, Pace, Played};
use quell_sim::scenario::Scenario;
use rustix::process::{Signal, set_parent_process_death_signal, setsid};
use serde::{Deserialize, Serialize};

/// One workload of a scene. Its course comes on standard input, when all players are there.
#[derive(Clone, Serialize, Deserialize)]
pub struct Player {
    /// The scene's file, for messages.
    pub path: PathBuf,
    /// The scene.
    pub text: String,
    /// Its changes, KEY=VALUE each.
    pub set: Vec<String>,
    pub seed: u64,
    /// Length of the measured part.
    pub duration: Nanos,
    /// The workload's name.
    pub workload: String,
    /// Steps of work a microsecond.
    pub pace: Pace,
}

/// The line by which a player learns its course.
pub fn line(course: Course) -> String {
    format!("{} {} {}\n", course.begin.0, course.from.0, course.end.0)
}

impl Request for Player {
    const NAME: &'static str = "player";
    type Answer = Played;

    /// Ends with its parent.
    fn answer(self) -> Result<Played> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A session of its own is a group of its own where autogroups are on.
        setsid().context("begin a session")?;
        let scenario = Scenario::parse(&self.path, &self.text, &self.set)?;
        let scenario = Scenario { seed: self.seed, duration: self.duration, ..scenario };
        let place = scenario.workloads.iter().position(|spec| spec.name == self.workload);
        let place = place.with_context(|| format!("there is no workload '{}'", self.workload))?;
        let (spec, graph) = (scenario.workloads[place].clone(), scenario.graphs());
        let part = quell_play::Part { spec, graph, place, seed: scenario.seed };
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).context("read the course")?;
        let times: Vec<u64> = line.split_whitespace().filter_map(|time| time.parse().ok()).collect();
        let [begin, from, end] = times[..] else { bail!("no course was given") };
        let course = Course { begin: Nanos(begin), from: Nanos(from), end: Nanos(end) };
        Ok(quell_play::play(&part, course, self.pace)?)
    }
}
