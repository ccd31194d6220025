//! A scene played by programs: servers are memcacheds or redises under load, work without end is `quell antagonist`.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use quell_bench::antagonist::{AntagonistReport, Phase, Sample};
use quell_bench::load::{LoadReport, LoadSpec};
use quell_command::programs::antagonist::{Antagonist, Asked};
use quell_command::programs::launched;
use quell_command::programs::server::Server;
use quell_command::{programs as commands, request};
use quell_model::{Nanos, SchedClass};
use quell_play::{Error, Had, Played};
use quell_report::stats::Histogram;
use quell_sim::WorkloadSpec;
use quell_sim::workload::Phases;
use tempfile::NamedTempFile;
use toml::{Table, Value};

use super::agent::Agent;
use super::apart::Apart;
use super::around::Around;
use super::counted::Found;
use super::groups::{self, Groups};
use super::in_force;
use super::load::{Counting, Load, Loaded};
use super::run::Row;
use super::scenes::Treated;
use crate::programs::{self, rate};

/// For what was started to settle.
const PAUSE: Duration = Duration::from_secs(1);
/// The load generators' priority: above everything that they measure.
const PRIORITY: u8 = 10;
/// Antagonists run until they are ended; without that they end this long after the load.
const AFTER: Nanos = Nanos::from_secs(120);
/// Distance of the seeds of a scene's loads.
const SEEDS_APART: u64 = 1000;

/// Is a workload one that a program can play?
pub fn check(spec: &WorkloadSpec) -> quell_play::Result<()> {
    let what = match (programs::program(spec), &spec.program) {
        (Some(_), _) => return Ok(()),
        (None, None) => "as a program it is a server with Poisson arrivals, closed with a pace, or batch",
        (None, Some(_)) => {
            "servers are memcached or redis, work without end is cpu, stream, llc, collector, forks or messages"
        }
    };
    Err(Error::Unplayable { workload: spec.name.clone(), what })
}

/// Plays every scene as often as it says; load generators have CPUs of their own where there are such.
pub fn play_all(treated: &[Treated], apart: Option<&Apart>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for treated in treated {
        for repetition in 0..treated.scenario.repetitions {
            let name = &treated.treatment.name;
            let played = play(treated, u64::from(repetition), apart, false);
            rows.extend(played.with_context(|| format!("treatment '{name}'"))?.rows);
        }
    }
    Ok(rows)
}

/// Plays a scene once, while the guest's instructions are counted.
pub fn count(treated: &Treated, apart: Option<&Apart>) -> Result<Found> {
    Ok(play(treated, 0, apart, true)?.found)
}

/// What came of playing a scene once.
struct Once {
    rows: Vec<Row>,
    /// Empty where nothing is counted.
    found: Found,
}

/// A program in its place.
enum Program {
    Server(Server),
    Antagonist(Antagonist),
}

impl Program {
    fn pid(&self) -> i32 {
        match self {
            Program::Server(server) => server.pid(),
            Program::Antagonist(antagonist) => antagonist.pid(),
        }
    }
}

fn play(treated: &Treated, repetition: u64, apart: Option<&Apart>, counts: bool) -> Result<Once> {
    let Treated { treatment, scenario, .. } = treated;
    let specs = &scenario.workloads;
    let mut around = Around::start(treatment, scenario)?;
    let in_groups =
        treatment.groups || !treated.is_plain() || specs.iter().any(|spec| groups::needed_by(spec).is_some());
    if in_groups && !groups::are_there() {
        bail!("it needs control groups with the cpu and cpuset controllers of cgroup v2, which are not here");
    }
    // Removed after the programs have ended.
    let _groups = in_groups.then(|| Groups::make(specs.iter())).transpose()?;
    let placed = |spec: &WorkloadSpec, program: Program| {
        if in_groups {
            Groups::take(spec, program.pid().cast_unsigned())?;
        }
        Ok(program)
    };
    let mut programs: Vec<Option<Program>> = specs
        .iter()
        .map(|spec| match programs::program(spec) {
            Some(programs::Program::Server(kind)) => {
                placed(spec, Program::Server(Server::start(kind, spec.threads, spec.scheduling)?)).map(Some)
            }
            _ => Ok(None),
        })
        .collect::<Result<_>>()?;
    let start_antagonists = |programs: &mut [Option<Program>]| {
        for (spec, program) in specs.iter().zip(programs) {
            if let (Some(batch), Some(programs::Program::Antagonist(kind))) = (&spec.batch, programs::program(spec)) {
                let asked =
                    Asked { kind, threads: spec.threads, phase: batch.phases.map(phase), class: spec.scheduling };
                let at_most = Duration::from_nanos((scenario.warm_up + scenario.duration + AFTER).0);
                *program = Some(placed(spec, Program::Antagonist(Antagonist::start(asked, at_most)?))?);
            }
        }
        anyhow::Ok(())
    };
    if treatment.be_first {
        start_antagonists(&mut programs)?;
    }
    let selected: Vec<_> = specs.iter().map(|spec| (spec, in_group(spec))).collect();
    let mut agent = Agent::of(treated, &selected, apart.map(Apart::rest))?;
    in_force::awaited(treated)?;
    sleep(PAUSE);
    let functions = counts.then(NamedTempFile::new).transpose().context("make a file for the kernel's functions")?;
    let mut loads = Vec::new();
    for (spec, program) in specs.iter().zip(&programs) {
        if let (Some(rate), Some(Program::Server(server))) = (rate(spec), program) {
            let seed = scenario.seed + repetition + SEEDS_APART * loads.len() as u64;
            let posts = agent.as_ref().filter(|_| spec.slo.is_some());
            let load = commands::Load {
                spec: load(server, rate, [scenario.warm_up, scenario.duration], seed)?,
                post: posts.map(|agent| (spec.name.clone(), agent.socket().to_owned())),
            };
            let counting = match &functions {
                None => Counting::Nothing,
                Some(file) if loads.is_empty() => Counting::Instructions(file.path().to_owned()),
                Some(_) => Counting::Answers,
            };
            let request = Load { load, counting };
            let launch = |command: &mut Command| launched(command, SchedClass::NORMAL);
            let start = || request::Asked::start(&request, launch).context("start a load");
            loads.push(match apart {
                Some(apart) => apart.start(loads.len(), start),
                None => start(),
            }?);
        }
    }
    // The servers have their keys by then, and the loads warm up.
    sleep(PAUSE);
    if !treatment.be_first {
        start_antagonists(&mut programs)?;
    }
    let all_had = |programs: &[Option<Program>]| {
        let had =
            |program: &Option<Program>| program.as_ref().map_or(Ok(Had::default()), |of| quell_play::had(of.pid()));
        programs.iter().map(had).collect::<std::io::Result<Vec<Had>>>().context("read schedstat")
    };
    let before = all_had(&programs)?;
    let loaded = loads.into_iter().map(request::Asked::answer).collect::<Result<Vec<Loaded>>>()?;
    let after = all_had(&programs)?;
    around.is_there()?;
    agent.as_mut().map_or(Ok(()), Agent::is_there)?;
    in_force::checked(treated)?;
    let requests = loaded.iter().map(|load| load.answers).sum();
    let mut reports = loaded.into_iter().map(|load| load.report).peekable();
    // The antagonists' last samples are later than the loads' ends.
    sleep(PAUSE / 5);
    // An antagonist that had no CPU so far gets one to end with.
    drop(agent);
    let first = reports.peek().context("no server in the scene")?;
    let span = (first.started_ns, first.started_ns + first.measured_ns);
    let mut rows = Vec::new();
    for (((spec, program), before), after) in specs.iter().zip(programs).zip(before).zip(after) {
        let played = match program.context("a workload without its program")? {
            Program::Server(_) => of_server(reports.next().context("a server without its load")?),
            Program::Antagonist(antagonist) => of_antagonist(antagonist.begun()?.end()?, span)?,
        };
        let part = played.measured.0 as f64 / (after.at - before.at).0.max(1) as f64;
        let scaled = |time: Nanos| Nanos((time.0 as f64 * part) as u64);
        let (ran, waited) = (scaled(after.ran - before.ran), scaled(after.waited - before.waited));
        let played = Played { name: spec.name.clone(), ran, waited, ..played };
        rows.push(Row { stack: treatment.name.clone(), class: spec.class, played });
    }
    let kallsyms = functions.map(|file| std::fs::read_to_string(file.path())).transpose();
    let kallsyms = kallsyms.context("read the kernel's functions")?.unwrap_or_default();
    Ok(Once { rows, found: Found { requests, kallsyms } })
}

fn in_group(spec: &WorkloadSpec) -> Table {
    Table::from_iter([("cgroup".to_owned(), Value::String(format!("/{}", groups::name_of(spec))))])
}

fn load(server: &Server, rate: f64, [warm_up, duration]: [Nanos; 2], seed: u64) -> Result<LoadSpec> {
    Ok(LoadSpec {
        target: server.address().parse()?,
        protocol: server.kind().protocol(),
        rate,
        keys: 1000,
        warmup_ns: warm_up.0,
        duration_ns: duration.0,
        seed,
        realtime: Some(PRIORITY),
        ..LoadSpec::default()
    })
}

/// Quiet and busy in turn, as an antagonist has it.
fn phase(Phases { busy, quiet }: Phases) -> Phase {
    let period = busy + quiet;
    Phase { period_ns: period.0, duty: busy.0 as f64 / period.0 as f64 }
}

fn of_server(report: LoadReport) -> Played {
    let mut latencies = Histogram::default();
    latencies.merge(&report.latency.histogram);
    Played {
        done: (report.served_per_s * report.measured_ns as f64 / 1e9).round() as u64,
        left: report.counts.unanswered,
        latencies: latencies.cells().collect(),
        measured: Nanos(report.measured_ns),
        late: Some(Nanos(report.lateness.at(0.99))),
        pause: Some(Nanos(latencies.max())),
        ..Played::default()
    }
}

/// Its blocks in the time in which latencies were measured. One that was kept from starting had done none.
fn of_antagonist(mut report: AntagonistReport, (from, to): (u64, u64)) -> Result<Played> {
    if report.timeline.first().is_some_and(|first| first.at_ns > from) {
        report.timeline.insert(0, Sample { at_ns: from, blocks: 0 });
    }
    let per_s = report.blocks_per_s_between(from, to).context("an antagonist did not run as long as the load")?;
    let done = (per_s * (to - from) as f64 / 1e9).round() as u64;
    let pause = Some(Nanos(report.longest_pause_ns));
    Ok(Played { done, measured: Nanos(to - from), pause, ..Played::default() })
}

#[cfg(test)]
mod tests {
    use quell_bench::antagonist::{AntagonistSpec, Kind};

    use super::*;

    fn did(samples: &[(u64, u64)]) -> AntagonistReport {
        let timeline = samples.iter().map(|&(at_ns, blocks)| Sample { at_ns, blocks }).collect();
        let spec = AntagonistSpec::usual(Kind::Cpu, 1, 1 << 20);
        let (started_ns, elapsed_ns, blocks) = (0, 0, 0);
        let (blocks_per_s, bytes_per_s, cpus, thread_blocks, longest_pause_ns) = (0.0, 0.0, 0.0, Vec::new(), 7);
        AntagonistReport {
            spec,
            started_ns,
            elapsed_ns,
            blocks,
            blocks_per_s,
            bytes_per_s,
            cpus,
            thread_blocks,
            longest_pause_ns,
            timeline,
        }
    }

    #[test]
    fn an_antagonists_work_is_that_of_the_measured_time() {
        const S: u64 = 1_000_000_000;
        let whole = did(&[(S / 2, 0), (S, 50), (2 * S, 70), (3 * S, 150)]);
        let played = of_antagonist(whole, (S, 3 * S)).unwrap();
        assert_eq!((played.done, played.pause), (100, Some(Nanos(7))));
        let late = did(&[(2 * S, 0), (3 * S, 20)]);
        assert_eq!(of_antagonist(late, (S, 3 * S)).unwrap().done, 20);
        assert!(of_antagonist(did(&[(S, 0), (2 * S, 7)]), (S, 3 * S)).is_err());
    }
}
