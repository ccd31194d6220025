//! `quell demo`: a real server, real antagonists, and what Quell does for it.

mod antagonist;
mod measure;
mod page;
mod phase;
mod probe;
mod result;
mod runaway;
mod server;
mod shares;
mod treat;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use quell_bench::load::{Arrivals, LoadSpec, Monitor};
use rustix::system::uname;

use self::measure::Setup;
use self::phase::{PHASES, Phase};
use self::result::{DemoReport, PhaseResult};
use super::signals;

/// Requests per second for each of memcached's threads.
const RATE_PER_THREAD: f64 = 20_000.0;
/// memcached's threads at most: one load generator cannot serve more.
const MOST_SERVER_THREADS: u32 = 8;
/// The load generator's priority: above everything that it measures.
const GENERATOR_PRIORITY: u8 = 10;

/// Show on this machine what Quell does: a real memcached beside real antagonists, phase by phase.
///
/// The phases: alone; co-run on plain Linux; Linux's own best (the antagonist as SCHED_IDLE in the server's session);
/// the server as SCHED_FIFO (the limit of what is possible, but unsafe: a runaway would take the machine); its own
/// CPUs (rkube); guard. Only processes that the demo itself started are touched.
#[derive(Args)]
pub struct Arguments {
    /// What to show
    #[arg(value_enum, default_value_t = Show::Latency)]
    show: Show,
    /// Measured seconds a phase
    #[arg(long, default_value_t = 7)]
    seconds: u32,
    /// How often every phase is run; the phases take turns
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// Only these phases, separated by commas
    #[arg(long, value_delimiter = ',')]
    phases: Vec<String>,
    /// Requests per second [default: 20000 for each of memcached's threads]
    #[arg(long)]
    rate: Option<f64>,
    /// memcached's threads and requested CPUs [default: a quarter of the CPUs, 1 to 8]
    #[arg(long)]
    server_threads: Option<u32>,
    /// cpu, stream, llc or collector
    #[arg(long, default_value = "cpu")]
    antagonist: String,
    /// The antagonist's threads [default: two for each CPU]
    #[arg(long)]
    antagonist_threads: Option<u32>,
    /// Fixes the arrivals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where report.json and report.html are written
    #[arg(long, default_value = ".", value_name = "DIRECTORY")]
    out: PathBuf,
    /// Print the report as JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// The demo's parts.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Show {
    /// A server beside antagonists, phase by phase
    Latency,
    /// A latency-critical program that spins on every CPU: does the machine stay usable?
    Runaway,
    /// Two latency-critical workloads, one overloaded: does the other keep its CPUs?
    Shares,
}

impl Arguments {
    fn setup(&self, cpus: u32) -> Result<Setup> {
        let server_threads = self.server_threads.unwrap_or((cpus / 4).clamp(1, MOST_SERVER_THREADS));
        if server_threads >= cpus {
            bail!(
                "{server_threads} server threads on {cpus} CPUs leave none to anybody else; give at most {}",
                cpus.saturating_sub(1)
            );
        }
        let load = LoadSpec {
            target: "127.0.0.1:1".parse()?,
            rate: self.rate.unwrap_or(RATE_PER_THREAD * f64::from(server_threads)),
            arrivals: Arrivals::Poisson,
            duration_ns: u64::from(self.seconds) * 1_000_000_000,
            warmup_ns: 1_000_000_000,
            drain_ns: 2_000_000_000,
            connections: 8 * server_threads,
            set_ratio: 0.1,
            keys: 10_000,
            value_bytes: 100,
            preload: true,
            seed: self.seed,
            realtime: may_be_real_time().then_some(GENERATOR_PRIORITY),
        };
        load.check()?;
        let antagonist_threads = self.antagonist_threads.unwrap_or(2 * cpus);
        Ok(Setup { server_threads, antagonist: self.antagonist.clone(), antagonist_threads, load })
    }

    fn phases(&self) -> Result<Vec<&'static Phase>> {
        if self.phases.is_empty() {
            return Ok(PHASES.iter().collect());
        }
        let known = || PHASES.map(|phase| phase.name).join(", ");
        self.phases
            .iter()
            .map(|name| {
                let phase = PHASES.iter().find(|phase| phase.name == name);
                phase.with_context(|| format!("there is no phase '{name}'; there are: {}", known()))
            })
            .collect()
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let cpus = thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
    if cpus < 2 {
        bail!("the demo needs at least 2 CPUs: one for the server, one for who else wants it");
    }
    let setup = arguments.setup(cpus)?;
    match arguments.show {
        Show::Latency => latency(arguments, &setup, cpus),
        Show::Runaway => {
            let rows = runaway::run(cpus)?;
            print(arguments, &rows, runaway::text(&rows, cpus))
        }
        Show::Shares => {
            let rows = shares::run(&setup, cpus, &interruptible()?)?;
            print(arguments, &rows, shares::text(&rows, cpus))
        }
    }
}

fn interruptible() -> Result<Monitor> {
    let monitor = Monitor::default();
    signals::set_on_interrupt(&monitor.stop)?;
    Ok(monitor)
}

fn print(arguments: &Arguments, rows: &impl serde::Serialize, text: String) -> Result<ExitCode> {
    let text = if arguments.json { serde_json::to_string_pretty(rows)? + "\n" } else { text };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn latency(arguments: &Arguments, setup: &Setup, cpus: u32) -> Result<ExitCode> {
    let (phases, skipped) = runnable(arguments.phases()?);
    let mut report = DemoReport {
        machine: machine(cpus, setup, arguments),
        phases: phases.iter().map(|phase| PhaseResult::empty(phase.name, phase.title)).collect(),
        skipped,
    };
    let monitor = interruptible()?;
    for line in report.machine.iter().chain(&report.skipped) {
        eprintln!("{line}");
    }
    let total = phases.len() as u64 * u64::from(arguments.repeat.max(1));
    let bar = indicatif::ProgressBar::new(total).with_style(
        indicatif::ProgressStyle::with_template("{spinner} {msg} {wide_bar} phase {pos} of {len}, {elapsed}")
            .expect("constant template"),
    );
    bar.enable_steady_tick(Duration::from_millis(250));
    for round in 0..arguments.repeat.max(1) as usize {
        // Each round begins with another phase, so that a drift of the machine does not hit the same one always.
        for turn in 0..phases.len() {
            let index = (turn + round) % phases.len();
            bar.set_message(phases[index].title);
            let run = measure::run(phases[index], setup, &monitor)
                .with_context(|| format!("phase '{}'", phases[index].name))?;
            if monitor.stop.load(Relaxed) {
                bar.finish_and_clear();
                bail!("interrupted; everything is put back, nothing is reported");
            }
            report.phases[index].runs.push(run);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    show(&report, arguments)?;
    Ok(ExitCode::SUCCESS)
}

fn show(report: &DemoReport, arguments: &Arguments) -> Result<()> {
    let write = |name: &str, text: String| {
        let path = arguments.out.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let json = serde_json::to_string(report)?;
    write("report.json", json.clone())?;
    write("report.html", report.page())?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{json}")?;
        return Ok(());
    }
    writeln!(out, "{}", report.table())?;
    for line in report.findings() {
        writeln!(out, "{line}")?;
    }
    for line in report.skipped.iter().chain(&report.caveats()) {
        writeln!(out, "! {line}")?;
    }
    writeln!(out, "written: {0}/report.json, {0}/report.html", arguments.out.display())?;
    Ok(())
}

/// The phases that this user may run, and a line for each that is left out.
fn runnable(phases: Vec<&'static Phase>) -> (Vec<&'static Phase>, Vec<String>) {
    if may_be_real_time() {
        return (phases, Vec::new());
    }
    let (skipped, phases): (Vec<&Phase>, Vec<_>) = phases.into_iter().partition(|phase| phase.real_time);
    let skipped = skipped
        .iter()
        .map(|phase| format!("skipped '{}': it needs the right to real-time threads; run as root", phase.title))
        .collect();
    (phases, skipped)
}

/// May this process make threads real-time?
fn may_be_real_time() -> bool {
    thread::spawn(|| quell_agent::realtime::run_before_others(1)).join().is_ok_and(|allowed| allowed.unwrap_or(false))
}

fn machine(cpus: u32, setup: &Setup, arguments: &Arguments) -> Vec<String> {
    vec![
        format!("{cpus} CPUs, Linux {}", uname().release().to_string_lossy()),
        format!(
            "memcached with {} threads, {:.0} requests/s (Poisson, seed {}); {} {} antagonist threads; {} s a phase, {} times",
            setup.server_threads,
            setup.load.rate,
            arguments.seed,
            setup.antagonist_threads,
            setup.antagonist,
            arguments.seconds,
            arguments.repeat.max(1)
        ),
    ]
}
