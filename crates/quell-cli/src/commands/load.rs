//! `quell load`: open-loop load on a memcached.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use quell_bench::human;
use quell_bench::load::{self, Arrivals, Distribution, LoadReport, LoadSpec, Monitor, Target};
use quell_bench::table::table;

use super::{signals, units};

/// Load a memcached with requests at fixed times, and measure every latency from the time that was intended.
///
/// The schedule is drawn from the seed before the first request and does not wait for answers (open loop), so a
/// server that stalls shows the stall. The report also says how late the generator itself was.
#[derive(Args)]
pub struct Arguments {
    /// The server: HOST:PORT or unix:PATH
    #[arg(long, default_value = "127.0.0.1:11211")]
    target: String,
    /// Mean requests per second
    #[arg(long, default_value_t = 20_000.0, allow_negative_numbers = true)]
    rate: f64,
    /// Measured time, for example 10s or 500ms
    #[arg(long, default_value = "10s")]
    duration: humantime::Duration,
    /// Time before it that is sent and not counted
    #[arg(long, default_value = "1s")]
    warmup: humantime::Duration,
    /// How long to wait for the last answers
    #[arg(long, default_value = "2s")]
    drain: humantime::Duration,
    /// Spread of the requests over time
    #[arg(long, value_enum, default_value_t = Spread::Poisson)]
    arrivals: Spread,
    /// Bursty only: rate within a burst over the mean rate
    #[arg(long, default_value_t = 4.0)]
    burst_factor: f64,
    /// Bursty only: share of the time in bursts; factor times share = 1 is on/off
    #[arg(long, default_value_t = 0.2)]
    burst_share: f64,
    /// Bursty only: mean length of a burst
    #[arg(long, default_value = "20ms")]
    burst_length: humantime::Duration,
    /// Connections, used in turn
    #[arg(long, default_value_t = 8)]
    connections: u32,
    /// Share of requests that are sets (0 to 1)
    #[arg(long, default_value_t = 0.1)]
    set_ratio: f64,
    /// Number of different keys
    #[arg(long, default_value_t = 10_000)]
    keys: u32,
    /// Bytes in every value
    #[arg(long, default_value_t = 100)]
    value_size: u32,
    /// Do not store the keys beforehand: gets then find nothing
    #[arg(long)]
    no_preload: bool,
    /// Fixes the schedule
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Protect the generator: run its thread as SCHED_FIFO with this priority (needs CAP_SYS_NICE; at a rate that it
    /// cannot keep it occupies a whole CPU)
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, default_missing_value = "10", require_equals = true)]
    realtime: Option<u8>,
    /// Print the whole report as JSON
    #[arg(long)]
    json: bool,
}

/// [`Arrivals`] without their parameters.
#[derive(Clone, Copy, ValueEnum)]
enum Spread {
    /// Exponential gaps
    Poisson,
    /// Equal gaps
    Fixed,
    /// Bursts with quieter time between them (two-state Markov-modulated Poisson process)
    Bursty,
}

impl Arguments {
    fn spec(&self) -> Result<LoadSpec> {
        let spec = LoadSpec {
            target: self.target.parse::<Target>()?,
            rate: self.rate,
            arrivals: match self.arrivals {
                Spread::Poisson => Arrivals::Poisson,
                Spread::Fixed => Arrivals::Fixed,
                Spread::Bursty => Arrivals::Bursty {
                    factor: self.burst_factor,
                    fraction: self.burst_share,
                    burst_ns: units::nanoseconds(self.burst_length),
                },
            },
            duration_ns: units::nanoseconds(self.duration),
            warmup_ns: units::nanoseconds(self.warmup),
            drain_ns: units::nanoseconds(self.drain),
            connections: self.connections,
            set_ratio: self.set_ratio,
            keys: self.keys,
            value_bytes: self.value_size,
            preload: !self.no_preload,
            seed: self.seed,
            realtime: self.realtime,
        };
        spec.check()?;
        Ok(spec)
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let spec = arguments.spec()?;
    let monitor = Monitor::default();
    signals::set_on_interrupt(&monitor.stop)?;
    let report = thread::scope(|scope| {
        let load = scope.spawn(|| load::run_watched(&spec, &monitor));
        show_progress(&spec, &monitor, || load.is_finished());
        load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", text(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_progress(spec: &LoadSpec, monitor: &Monitor, finished: impl Fn() -> bool) {
    let bar = indicatif::ProgressBar::new(0).with_style(
        indicatif::ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} requests, {eta} left")
            .expect("constant template"),
    );
    bar.set_message(format!("loading {}", spec.target));
    while !finished() {
        bar.set_length(monitor.planned.load(Relaxed));
        bar.set_position(monitor.due.load(Relaxed));
        thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}

/// The report for people.
fn text(report: &LoadReport) -> String {
    let spec = &report.spec;
    let counts = &report.counts;
    let mut lines = vec![
        format!(
            "{}: {} asked, {} served for {} ({} connections, {} sets, {} values, seed {})",
            spec.target,
            human::rate(report.offered_per_s),
            human::rate(report.served_per_s),
            human::nanoseconds(report.measured_ns),
            spec.connections,
            human::percent(spec.set_ratio),
            human::bytes(u64::from(spec.value_bytes)),
            spec.seed,
        ),
        table(
            ["", "p50", "p90", "p99", "p99.9", "max", "mean"],
            [row("latency", &report.latency), interval_row(&report.latency), row("own lateness", &report.lateness)],
        )
        .to_string(),
        format!(
            "{} answered ({} hits, {} misses), {} refused, {} unanswered; generator used {:.2} CPUs{}; hypervisor took {}",
            counts.answered,
            counts.hits,
            counts.misses,
            counts.refused,
            counts.unanswered,
            report.generator_cpus,
            spec.realtime.map_or(String::new(), |p| format!(" (SCHED_FIFO {p})")),
            report.stolen.map_or("?".into(), human::percent),
        ),
    ];
    lines.extend(report.caveats().iter().map(|text| format!("! {text}")));
    lines.join("\n") + "\n"
}

fn row(name: &str, distribution: &Distribution) -> Vec<String> {
    let mut cells = vec![name.to_owned()];
    cells.extend(distribution.quantiles.iter().map(|quantile| human::nanoseconds(quantile.ns)));
    cells.push(human::nanoseconds(distribution.max_ns));
    cells.push(human::nanoseconds(distribution.mean_ns as u64));
    cells
}

fn interval_row(distribution: &Distribution) -> Vec<String> {
    let mut cells = vec!["  95 % interval".to_owned()];
    cells.extend(distribution.quantiles.iter().map(|quantile| match quantile.interval_ns {
        Some((low, high)) => human::range(low, high),
        None => "–".into(),
    }));
    cells.extend([String::new(), String::new()]);
    cells
}
