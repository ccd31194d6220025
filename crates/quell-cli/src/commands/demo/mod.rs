//! `quell demo`: a real server, real antagonists, and what Quell does for it.

mod aside;
mod awake;
mod baseline;
mod latency;
mod measure;
mod others;
mod output;
mod page;
mod probe;
mod result;
mod runaway;
mod scene;
mod shares;
#[cfg(test)]
mod tests;
mod treat;
mod waited;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use quell_bench::load::{Arrivals, LoadSpec, Monitor};

use self::measure::Setup;
use quell_command::{signals, units};

use self::scene::Phase;
use super::antagonist::KindName;

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
/// CPUs (rkube); guard. Only processes that the demo itself started are touched. Phases that need a missing privilege are skipped. The result
/// is summed up at the end; where the server alone was disturbed, it has no ratios, and says why.
#[derive(Args)]
pub struct Arguments {
    /// What to show
    #[arg(value_enum, default_value_t = Show::Latency)]
    show: Show,
    /// Measured seconds a phase
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// How often every phase is run, interleaved
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Only these phases, separated by commas
    #[arg(long, value_delimiter = ',')]
    phases: Vec<String>,
    /// Requests per second, such as 40k [default: 20000 for each of memcached's threads]
    #[arg(long, value_parser = units::rate)]
    rate: Option<f64>,
    /// memcached's threads and requested CPUs [default: a quarter of the CPUs, 1 to 8]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    server_threads: Option<u32>,
    /// What disturbs the server
    #[arg(long, value_enum, default_value = "cpu")]
    antagonist: KindName,
    /// The antagonist's threads [default: two for each CPU]
    #[arg(long)]
    antagonist_threads: Option<u32>,
    /// Fixes the arrivals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where report.json and report.html are written [default: here, if that is allowed]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
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
                "--server-threads {server_threads}: on {cpus} CPUs that leaves none for others; give at most {}",
                cpus - 1
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
            realtime: scene::may_be_real_time().then_some(GENERATOR_PRIORITY),
            // The server ends with the phase.
            keep_keys: true,
            ..LoadSpec::default()
        };
        load.check()?;
        let antagonist =
            quell_command::programs::usual(self.antagonist.into(), self.antagonist_threads.unwrap_or(2 * cpus))?;
        quell_command::programs::check(&antagonist)?;
        Ok(Setup { server_threads, antagonist, load })
    }

    fn phases(&self, setup: &Setup) -> Result<Vec<Phase>> {
        let all = scene::latency(setup.server_threads, setup.antagonist.threads);
        let known = all.iter().map(|phase| phase.name).collect::<Vec<_>>().join(", ");
        if self.phases.is_empty() {
            return Ok(all);
        }
        let place = |name: &String| {
            let place = all.iter().position(|phase| phase.name == *name);
            place.with_context(|| format!("there is no phase '{name}'; there are: {known}"))
        };
        let places = self.phases.iter().map(place).collect::<Result<Vec<usize>>>()?;
        Ok(places.into_iter().map(|place| all[place].clone()).collect())
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let cpus = thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
    if cpus < 2 {
        bail!("the demo needs at least 2 CPUs: one for the server and one for its neighbours");
    }
    let setup = arguments.setup(cpus)?;
    match arguments.show {
        Show::Latency => latency::show(arguments, &setup, cpus),
        Show::Runaway => runaway::show(cpus, arguments.json),
        Show::Shares => shares::show(&setup, cpus, &interruptible()?, arguments.json),
    }
}

fn interruptible() -> Result<Monitor> {
    let monitor = Monitor::default();
    signals::set_on_interrupt(&monitor.stop)?;
    Ok(monitor)
}
