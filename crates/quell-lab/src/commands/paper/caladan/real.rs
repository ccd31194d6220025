//! `quell-lab paper caladan`: promises of Quell's scheduler for unmodified programs, on a real kernel in the lab.

use anyhow::{Context, Result, bail};
use quell_evidence::{Cell, Found, Interval, Measure};
use quell_guest::{Lab, ToStderr};
use quell_report::human;

use super::pool::{self, Ratio, quantile, ratio, servers};
use super::{found, missing};
use crate::in_guest::boots::{Bench, Boot};
use crate::programs::{self, SCENES};

/// Stands for all scenes.
pub const ALL: &str = "all";

/// Multiple of the lab's slowest CPU: 500 million instructions a second, 4,800 requests. The agent's loop, which steps
/// ten times a second by itself, then takes no more of a CPU than some thousandths.
const SPEED: u32 = 4;
/// Number of seeds, and seconds of each cell's load: 120,000 requests a server and row together.
const FULL: (u64, u32) = (5, 5);
/// Shows that it runs.
const QUICK: (u64, u32) = (1, 1);
/// The crowded scenes' machine.
const CROWDED_CPUS: u32 = 4;
/// The smaller of the two machines.
const SMALL_CPUS: u32 = 2;
/// The peer whose loop has a CPU of its own.
const POLLS: &str = "caladan-dedicated";
/// The first server of a scene.
const FIRST: Option<usize> = Some(0);

/// A scene on this many CPUs, with the server's p99, its p99.9 and the neighbours' work as rows.
#[derive(Clone, Copy)]
struct Real {
    /// The scene's name (`quell-lab run --list`).
    scene: &'static str,
    cpus: u32,
    /// Quell's loop has a CPU of its own; else it sleeps.
    polls: bool,
    /// The load generator runs among the programs, as before it had a CPU of its own.
    shared: bool,
}

const fn real(scene: &'static str, cpus: u32, polls: bool) -> Real {
    Real { scene, cpus, polls, shared: false }
}

const fn shared(scene: &'static str, cpus: u32) -> Real {
    Real { scene, cpus, polls: false, shared: true }
}

const REAL: [Real; 18] = [
    real("spin", 2, false),
    real("spin", 4, false),
    real("spin", 4, true),
    real("phased", 2, false),
    real("phased", 4, false),
    real("phased", 4, true),
    real("pool", 2, false),
    real("pool", 4, false),
    real("pool", 4, true),
    real("pool-phased", 2, false),
    real("pool-phased", 4, false),
    real("pool-phased", 4, true),
    real("redis", 2, false),
    real("redis", 4, false),
    shared("spin", 2),
    shared("spin", 4),
    shared("pool", 2),
    shared("pool", 4),
];

impl Real {
    fn peer(self) -> &'static str {
        if self.polls { POLLS } else { "caladan" }
    }

    /// The names of its rows.
    fn names(self) -> [String; 3] {
        let kind = if self.polls {
            "-dedicated"
        } else if self.shared {
            ".shared"
        } else {
            ""
        };
        ["p99", "p999", "work"].map(|what| format!("real.{}.{}{kind}.{what}", self.scene, self.cpus))
    }
}

/// An overcommitted scene; does a row give the loss beside SCHED_FIFO servers?
const CROWDED: [(&str, bool); 3] = [("runaway", false), ("overload", true), ("many", true)];

/// The scene whose servers are all alike.
const ALIKE: &str = "many";

fn crowded_names(scene: &str, has_lost: bool) -> (String, Option<String>) {
    (format!("real.{scene}.p99"), has_lost.then(|| format!("real.{scene}.lost")))
}

struct Series<'a> {
    bench: Bench<'a>,
    seeds: u64,
}

/// Are there these scenes?
pub fn check(scenes: &[String]) -> Result<()> {
    if let Some(unknown) = scenes.iter().find(|id| *id != ALL && programs::scene(id).is_none()) {
        let known: Vec<_> = SCENES.iter().map(|scene| scene.name).collect();
        bail!("--real={unknown}: there is no such scene; there are {}", known.join(", "));
    }
    Ok(())
}

/// Runs the cases of these scenes, all if it says so; the others are not run.
pub fn run(quick: bool, scenes: &[String]) -> Result<Vec<Measure>> {
    let is_chosen = |scene: &str| scenes.iter().any(|id| id == ALL || id == scene);
    let mut measures = Vec::new();
    let (seeds, seconds) = if quick { QUICK } else { FULL };
    let lab = if scenes.is_empty() { None } else { Some(Lab::new(&ToStderr)?) };
    let series = match &lab {
        Some(lab) => Some(Series { bench: Bench::new(lab, None, SPEED, seconds)?, seeds }),
        None => None,
    };
    let not_run = |name: String| missing(&name, "needs a real kernel: say --real, or name its scene, --real=SCENE");
    for case in REAL {
        match &series {
            Some(series) if is_chosen(case.scene) && (!quick || case.cpus == SMALL_CPUS) => {
                measures.extend(series.real(case)?)
            }
            _ => measures.extend(case.names().into_iter().map(not_run).collect::<Result<Vec<_>>>()?),
        }
    }
    for (scene, has_lost) in CROWDED {
        match &series {
            Some(series) if is_chosen(scene) && !quick => measures.extend(series.crowded(scene, has_lost)?),
            _ => {
                let (p99, lost) = crowded_names(scene, has_lost);
                measures.push(not_run(p99)?);
                measures.extend(lost.map(not_run).transpose()?);
            }
        }
    }
    Ok(measures)
}

impl Series<'_> {
    fn real(&self, case: Real) -> Result<[Measure; 3]> {
        let wanted = ["alone", "fifo", case.peer()].map(|peer| (case.scene, peer, self.seeds));
        let [alone, fifo, ours] = self.measured(case.cpus, case.shared, wanted)?;
        let [p99, p999, work_name] = case.names();
        let p99 = latency(&p99, &ours, &alone, |cells| quantile(cells, FIRST, 0.99))?;
        let p999 = latency(&p999, &ours, &fifo, |cells| quantile(cells, FIRST, 0.999))?;
        let may_have = if case.polls { self.without_a_cpu(case, &fifo)? } else { fifo };
        let work_lost = if pool::kinds(&may_have) > 1 {
            let [ours, theirs] = [&ours, &may_have].map(|boots| pool::of_each(boots, &may_have));
            lost(&work_name, &ours, &theirs, "% of each program's work", work)?
        } else {
            lost(&work_name, &ours, &may_have, "blocks/s", work)?
        };
        Ok([p99, p999, work_lost])
    }

    /// Beside SCHED_FIFO servers, with a CPU less: each CPU more than two adds a CPU's work.
    fn without_a_cpu(&self, case: Real, fifo: &[Vec<Cell>]) -> Result<Vec<Vec<Cell>>> {
        let [small] = self.measured(SMALL_CPUS, case.shared, [(case.scene, "fifo", self.seeds)])?;
        let less = |(all, small): (&Vec<Cell>, &Vec<Cell>)| {
            let (all, small) = (pool::work(all), pool::work(small));
            vec![Cell { rate: all - (all - small) / f64::from(case.cpus - SMALL_CPUS), ..Cell::default() }]
        };
        Ok(fifo.iter().zip(&small).map(less).collect())
    }

    fn crowded(&self, scene: &str, has_lost: bool) -> Result<Vec<Measure>> {
        let (p99, lost_name) = crowded_names(scene, has_lost);
        // Servers that are alike are counted together; else the first one is compared with the single server's scene.
        let alike = scene == ALIKE;
        let solo = if alike { scene } else { SCENES[0].name };
        // If nothing is compared with them, one seed shows the results of SCHED_FIFO servers.
        let fifo_seeds = if has_lost { self.seeds } else { 1 };
        let wanted = [(solo, "alone", self.seeds), (scene, "fifo", fifo_seeds), (scene, "caladan", self.seeds)];
        let [alone, fifo, ours] = self.measured(CROWDED_CPUS, false, wanted)?;
        let of = if alike { |boots: &[&Vec<Cell>]| quantile(boots, None, 0.99) } else { first_p99 };
        let mut measure = latency(&p99, &ours, &alone, of)?;
        measure.note += &match of(&all(&fifo)) {
            0.0 => "; a SCHED_FIFO server answers nothing".to_owned(),
            theirs => format!("; SCHED_FIFO servers: {}", human::nanoseconds(theirs as u64)),
        };
        let mut measures = vec![measure];
        if let Some(name) = lost_name {
            measures.push(match alike {
                true => lost(&name, &ours, &fifo, "blocks/s", work)?,
                false => lost(&name, &ours, &fifo, "answers/s", last_served)?,
            });
        }
        Ok(measures)
    }

    /// The results of scenes, peers and numbers of seeds.
    fn measured<const N: usize>(
        &self,
        cpus: u32,
        shared: bool,
        wanted: [(&str, &str, u64); N],
    ) -> Result<[Vec<Vec<Cell>>; N]> {
        let mut rows = Vec::new();
        for (scene, treatment, seeds) in wanted {
            let scene = programs::scene(scene).context("a scene that there is")?;
            let treatment = programs::treatment(treatment).context("a treatment that there is")?;
            rows.push((1..=seeds).map(|seed| Boot { scene, treatment, cpus, seed, shared }).collect::<Vec<_>>());
        }
        self.bench.measure_missing(&rows.concat())?;
        let mut results = [const { Vec::new() }; N];
        for (results, row) in results.iter_mut().zip(rows) {
            *results = row.into_iter().map(|boot| self.bench.measure(boot)).collect::<Result<_>>()?;
        }
        Ok(results)
    }
}

fn all(boots: &[Vec<Cell>]) -> Vec<&Vec<Cell>> {
    boots.iter().collect()
}

fn first_p99(boots: &[&Vec<Cell>]) -> f64 {
    quantile(boots, FIRST, 0.99)
}

/// Our loss, as a part of theirs.
fn lost(
    name: &str,
    ours: &[Vec<Cell>],
    theirs: &[Vec<Cell>],
    unit: &str,
    of: fn(&[&Vec<Cell>]) -> f64,
) -> Result<Measure> {
    let kept = ratio(ours, theirs, of);
    let (has, had) = (of(&all(ours)), of(&all(theirs)));
    let (low, high) = kept.interval;
    let lost = Ratio { value: 1.0 - kept.value, interval: (1.0 - high, 1.0 - low) };
    found(name, estimate(&lost, ours.len()), format!("{has:.0} {unit} beside {had:.0}"))
}

fn latency(name: &str, ours: &[Vec<Cell>], theirs: &[Vec<Cell>], of: fn(&[&Vec<Cell>]) -> f64) -> Result<Measure> {
    let pooled = |boots: &[Vec<Cell>]| human::nanoseconds(of(&all(boots)) as u64);
    let note = format!("{} against {}", pooled(ours), pooled(theirs));
    found(name, estimate(&ratio(ours, theirs, of), ours.len()), note)
}

/// With its interval, where seeds could be drawn.
fn estimate(ratio: &Ratio, seeds: usize) -> Found {
    let (low, high) = ratio.interval;
    if seeds > 1 { Found::Estimate(ratio.value, Interval { low, high }) } else { Found::Seeds(vec![ratio.value]) }
}

/// Blocks a second of all that runs beside the servers, the mean over the seeds.
fn work(boots: &[&Vec<Cell>]) -> f64 {
    boots.iter().map(|boot| pool::work(boot)).sum::<f64>() / boots.len().max(1) as f64
}

/// Answers a second of the last server, the mean over the seeds.
fn last_served(boots: &[&Vec<Cell>]) -> f64 {
    boots.iter().filter_map(|boot| servers(boot).last()).map(|server| server.rate).sum::<f64>()
        / boots.len().max(1) as f64
}
