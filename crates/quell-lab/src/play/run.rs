//! One scene under one stack: the processes, from start to end.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use quell_command::request::Asked;
use quell_model::{Class, Nanos};
use quell_play::{Counted, Course, Pace, Played};
use quell_report::stats::Histogram;
use quell_thread::clock;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::agent::Agent;
use super::around::Around;
use super::groups;
use super::player::{self, Player};
use super::scenes::Treated;

/// From the course's announcement to its beginning: threads are made meanwhile.
const AHEAD: Nanos = Nanos::from_millis(500);

/// A scene, ready to be played.
pub struct Scene {
    path: PathBuf,
    /// The file's scene.
    text: String,
    treated: Treated,
    pace: Pace,
    has_groups: bool,
}

/// A workload under a stack.
pub struct Row {
    /// The stack's name.
    pub stack: String,
    /// The workload's class.
    pub class: Class,
    /// What became of it.
    pub played: Played,
}

impl Row {
    /// Its latencies.
    pub fn latencies(&self) -> Histogram {
        self.played.histogram()
    }

    /// This many CPUs, on average.
    pub fn cpus(&self, time: Nanos) -> f64 {
        time.0 as f64 / self.played.measured.0.max(1) as f64
    }

    /// As data.
    pub fn report(&self) -> Report {
        let Played { name, done, left, latencies, measured, late, pause, counted, .. } = self.played.clone();
        let all = self.latencies();
        let quantile = |q: f64| (all.count() > 0).then(|| all.quantile(q));
        Report {
            stack: self.stack.clone(),
            workload: name,
            class: self.class,
            done,
            left,
            measured_ns: measured.0,
            cpus: self.cpus(self.played.ran),
            waiting: self.cpus(self.played.waited),
            counted,
            late_p99_ns: late.map(|time| time.0),
            pause_ns: pause.map(|time| time.0),
            mean_ns: (all.count() > 0).then(|| all.mean()),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            latencies,
        }
    }
}

/// A row as data.
#[derive(Serialize, Deserialize)]
pub struct Report {
    pub stack: String,
    pub workload: String,
    pub class: Class,
    /// Requests, steps or blocks that were done, and requests that were left.
    pub done: u64,
    pub left: u64,
    pub measured_ns: u64,
    /// CPUs that it had, and those that it waited for, on average.
    pub cpus: f64,
    pub waiting: f64,
    #[serde(default)]
    pub counted: Option<Counted>,
    pub late_p99_ns: Option<u64>,
    pub pause_ns: Option<u64>,
    pub mean_ns: Option<f64>,
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub p999_ns: Option<u64>,
    /// Latencies in ns, each with its count.
    pub latencies: Vec<(u64, u64)>,
}

impl Scene {
    /// A scene of this file.
    pub fn new(path: PathBuf, text: String, treated: Treated, pace: Pace) -> Scene {
        Scene { path, text, treated, pace, has_groups: groups::are_there() }
    }

    /// This many times it is to be played.
    pub fn repetitions(&self) -> u32 {
        self.treated.scenario.repetitions
    }

    /// What differs from the scene here.
    pub fn notes(&self) -> Result<Vec<String>> {
        let (there, here) =
            (self.treated.scenario.machine()?.topology.all().len(), std::thread::available_parallelism()?.get());
        let mut notes = Vec::new();
        if there != here {
            notes.push(format!("the scene's machine has {there} CPUs, this one {here}"));
        }
        if !self.has_groups {
            let needs =
                self.treated.scenario.workloads.iter().find_map(|spec| Some((&spec.name, groups::needed_by(spec)?)));
            if let Some((name, key)) = needs {
                bail!(
                    "workload '{name}': {key} needs control groups with the cpu and cpuset controllers of cgroup v2, \
                     which are not here; play it in a guest: add --in lab"
                );
            }
            notes.push("no cgroup v2 with cpu and cpuset: each workload has a session, not a group, of its own".into());
        }
        Ok(notes)
    }

    /// Plays it once.
    pub fn play(&self, repetition: u32) -> Result<Vec<Row>> {
        let Treated { treatment, scenario, .. } = &self.treated;
        let specs = &scenario.workloads;
        let seed = scenario.seed + u64::from(repetition);
        let mut around = Around::start(treatment, scenario)?;
        // Removed after the players have ended.
        let _groups = self.has_groups.then(|| groups::Groups::make(specs.iter())).transpose()?;
        let mut players = Vec::new();
        for spec in specs {
            let player = self.start(&spec.name, seed)?;
            if self.has_groups {
                groups::Groups::take(spec, player.id())?;
            }
            players.push(player);
        }
        let select = |(spec, player): (_, &Asked<Player>)| (spec, self.selector(spec, player));
        let selected: Vec<_> = specs.iter().zip(&players).map(select).collect();
        let agent = Agent::of(&self.treated, &selected, None)?;
        let begin = clock::now() + AHEAD;
        let from = begin + scenario.warm_up;
        let line = player::line(Course { begin, from, end: from + scenario.duration });
        players.iter_mut().try_for_each(|player| player.send(&line))?;
        let rows = specs.iter().zip(players).map(|(spec, player)| {
            let played = player.answer().with_context(|| format!("play workload '{}'", spec.name))?;
            Ok(Row { stack: treatment.name.clone(), class: spec.class, played })
        });
        let rows = rows.collect();
        drop(agent);
        around.is_there()?;
        rows
    }

    fn start(&self, name: &str, seed: u64) -> Result<Asked<Player>> {
        let request = Player {
            path: self.path.clone(),
            text: self.text.clone(),
            set: self.treated.set.clone(),
            seed,
            duration: self.treated.scenario.duration,
            workload: name.to_owned(),
            pace: self.pace,
        };
        Asked::start(&request, |command| command.spawn().context("start a player"))
    }

    fn selector(&self, spec: &quell_sim::WorkloadSpec, player: &Asked<Player>) -> Table {
        let (key, value) = match self.has_groups {
            true => ("cgroup", Value::String(format!("/{}", groups::name_of(spec)))),
            false => ("pid", Value::Integer(player.id().into())),
        };
        Table::from_iter([(key.to_owned(), value)])
    }
}
