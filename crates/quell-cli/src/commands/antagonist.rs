//! `quell antagonist`: best-effort work that takes from its neighbours.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use quell_bench::antagonist::{self, AntagonistReport, AntagonistSpec, Kind, Phase, Progress};
use quell_bench::sched;
use quell_command::programs::{self, usual};
use quell_model::Nanos;
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;

use quell_command::{output, progress, signals, units};

/// Take CPU time, memory bandwidth or cache from the neighbours, and count the work done.
///
/// It ends by itself after its duration, at Ctrl-C or at SIGTERM, and then reports.
#[derive(Args)]
pub struct Arguments {
    /// What it takes
    #[arg(value_enum)]
    kind: KindName,
    /// Threads [default: one for each CPU that it may use]
    #[arg(long)]
    threads: Option<u32>,
    /// It ends by itself after this time
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = units::positive_duration, allow_negative_numbers = true)]
    duration: Nanos,
    /// Memory over all threads, for example 64MiB [default: from the last-level cache's size]
    #[arg(long, value_name = "SIZE", value_parser = units::size, allow_negative_numbers = true)]
    working_set: Option<u64>,
    /// Be quiet and busy in turn, with this period [default for the collector: 1s]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration, allow_negative_numbers = true)]
    period: Option<Nanos>,
    /// Share of a period that is busy [default: 0.3]
    #[arg(long)]
    duty: Option<f64>,
    /// Run as SCHED_IDLE: only where no other work wants the CPU
    #[arg(long)]
    idle: bool,
    /// Keep the counters of blocks in this file, for another process to read while it runs
    #[arg(long, value_name = "FILE")]
    progress: Option<PathBuf>,
    /// Print the report as one line of JSON
    #[arg(long)]
    json: bool,
}

/// [`Kind`], with its help.
#[derive(Clone, Copy, ValueEnum)]
pub enum KindName {
    /// CPU time: arithmetic in registers
    Cpu,
    /// Memory bandwidth: STREAM's triad
    Stream,
    /// The last-level cache: dependent loads in random order
    Llc,
    /// A garbage collector: quiet, then every thread scans a heap
    Collector,
    /// Processes that come and go
    Forks,
    /// Wake-ups: threads that send each other a byte
    Messages,
}

impl From<KindName> for Kind {
    fn from(name: KindName) -> Kind {
        match name {
            KindName::Cpu => Kind::Cpu,
            KindName::Stream => Kind::Stream,
            KindName::Llc => Kind::Llc,
            KindName::Collector => Kind::Collector,
            KindName::Forks => Kind::Forks,
            KindName::Messages => Kind::Messages,
        }
    }
}

impl Arguments {
    fn spec(&self) -> Result<AntagonistSpec> {
        let threads = match self.threads {
            Some(threads) => threads,
            None => thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        };
        let mut spec = usual(self.kind.into(), threads)?;
        spec.duration_ns = self.duration.0;
        if let Some(size) = self.working_set {
            spec.working_set_bytes = size;
        }
        if self.period.is_some() || self.duty.is_some() {
            let usual = spec.phase.unwrap_or(Phase { period_ns: 1_000_000_000, duty: 0.3 });
            spec.phase = Some(Phase {
                period_ns: self.period.map_or(usual.period_ns, |period| period.0),
                duty: self.duty.unwrap_or(usual.duty),
            });
        }
        programs::check(&spec)?;
        Ok(spec)
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let spec = arguments.spec()?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::set_on_interrupt(&stop)?;
    if arguments.idle {
        sched::become_idle()?;
    }
    let counted = Progress::create(arguments.progress.as_deref(), spec.threads)?;
    let report = thread::scope(|scope| {
        let work = scope.spawn(|| antagonist::run(&spec, &counted, &stop));
        show_progress(&spec, &counted, || work.is_finished());
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    if arguments.json {
        output::json_line(&report)?;
    } else {
        writeln!(io::stdout(), "{}", text(&report, &Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_progress(spec: &AntagonistSpec, counted: &Progress, finished: impl Fn() -> bool) {
    let bar = progress::bar(spec.duration_ns / 1_000_000, "{prefix} {wide_bar} {msg}");
    bar.set_prefix(format!("{} on {} threads", spec.kind.name(), spec.threads));
    while !finished() {
        bar.set_message(format!("{} blocks", counted.blocks()));
        bar.set_position(bar.elapsed().as_millis() as u64);
        thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}

/// The report for people.
fn text(report: &AntagonistReport, screen: &Screen) -> String {
    let of_memory = |text: String| if report.spec.kind.uses_memory() { text } else { "–".to_owned() };
    let head = ["antagonist", "threads", "working set", "time", "blocks", "blocks/s", "memory", "CPUs"];
    let row = [
        report.spec.kind.name().to_owned(),
        report.spec.threads.to_string(),
        of_memory(human::bytes(report.spec.working_set_bytes)),
        human::nanoseconds(report.elapsed_ns),
        report.blocks.to_string(),
        human::rate(report.blocks_per_s),
        of_memory(format!("{}/s", human::bytes(report.bytes_per_s as u64))),
        format!("{:.2}", report.cpus),
    ];
    table(head, [row]).least(["time", "threads", "blocks"]).fit(screen)
}
