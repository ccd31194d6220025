//! One scene under one stack: the processes, from start to end.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use quell_model::{Class, Nanos};
use quell_play::{Course, Pace, Played};
use quell_report::stats::Histogram;
use quell_thread::clock;
use serde_json::json;
use toml::{Table, Value};

use super::agent::Agent;
use super::around::Around;
use super::scenes::Treated;
use super::{child, groups};

/// From the course's announcement to its beginning: threads are made meanwhile.
const AHEAD: Nanos = Nanos::from_millis(500);

/// A scene, ready to be played.
pub struct Scene {
    path: PathBuf,
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

    /// So many CPUs, on average.
    pub fn cpus(&self, time: Nanos) -> f64 {
        time.0 as f64 / self.played.measured.0.max(1) as f64
    }

    /// As data.
    pub fn json(&self) -> serde_json::Value {
        let Played { name, done, left, latencies, measured, late, pause, counted, .. } = &self.played;
        let all = self.latencies();
        let quantile = |q: f64| (all.count() > 0).then(|| all.quantile(q));
        json!({
            "stack": self.stack, "workload": name, "class": self.class, "done": done, "left": left,
            "measured_ns": measured, "cpus": self.cpus(self.played.ran), "waiting": self.cpus(self.played.waited),
            "counted": counted, "late_p99_ns": late, "pause_ns": pause,
            "mean_ns": (all.count() > 0).then(|| all.mean()), "p50_ns": quantile(0.5), "p99_ns": quantile(0.99), "p999_ns": quantile(0.999),
            "latencies": latencies,
        })
    }
}

/// A process that plays a workload; killed if it is dropped before its end.
struct Player(Child);

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Scene {
    /// A scene of this file.
    pub fn new(path: PathBuf, treated: Treated, pace: Pace) -> Scene {
        Scene { path, treated, pace, has_groups: groups::are_there() }
    }

    /// So many times it is to be played.
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
                     which are not here; play it in the lab: quell lab run -- quell play SCENARIO"
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
                groups::Groups::take(spec, player.0.id())?;
            }
            players.push(player);
        }
        let select = |(spec, player): (_, &Player)| (spec, self.selector(spec, player));
        let selected: Vec<_> = specs.iter().zip(&players).map(select).collect();
        let agent = Agent::of(&self.treated, &selected, None)?;
        let begin = clock::now() + AHEAD;
        let from = begin + scenario.warm_up;
        let line = child::line(Course { begin, from, end: from + scenario.duration });
        for Player(child) in &mut players {
            let mut input = child.stdin.take().context("a player without input")?;
            input.write_all(line.as_bytes()).context("tell a player its course")?;
        }
        let rows = specs.iter().zip(&mut players).map(|(spec, player)| {
            let played = finish(player).with_context(|| format!("play workload '{}'", spec.name))?;
            Ok(Row { stack: treatment.name.clone(), class: spec.class, played })
        });
        let rows = rows.collect();
        drop(agent);
        around.is_there()?;
        rows
    }

    fn start(&self, name: &str, seed: u64) -> Result<Player> {
        let mut command = Command::new(std::env::current_exe().context("find this program")?);
        command.arg("play").arg(&self.path).args(["--only", name, "--seed", &seed.to_string()]);
        command.arg("--pace").arg(serde_json::to_string(&self.pace)?);
        command.arg("--duration").arg(format!("{}ns", self.treated.scenario.duration.0));
        for change in &self.treated.set {
            command.arg("--set").arg(change);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Player(command.spawn().context("start a player")?))
    }

    fn selector(&self, spec: &quell_sim::WorkloadSpec, player: &Player) -> Table {
        let (key, value) = match self.has_groups {
            true => ("cgroup", Value::String(format!("/{}", groups::name_of(spec)))),
            false => ("pid", Value::Integer(player.0.id().into())),
        };
        Table::from_iter([(key.to_owned(), value)])
    }
}

fn finish(player: &mut Player) -> Result<Played> {
    let mut text = String::new();
    player.0.stdout.take().context("a player without output")?.read_to_string(&mut text)?;
    let status = player.0.wait()?;
    if !status.success() {
        bail!("it ended: {status}");
    }
    serde_json::from_str(&text).context("read what it says")
}
