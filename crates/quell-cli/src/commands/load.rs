//! `quell load`: open-loop load on a memcached, a redis or an HTTP server.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use quell_bench::load::{
    self, Arrivals, Distribution, Endpoint, LoadReport, LoadSpec, Monitor, Protocol, Quantile, Target,
};
use quell_effect::quantile::needed;
use quell_model::Nanos;
use quell_report::human;
use quell_report::screen::Screen;
use quell_report::table::table;

use super::agent_socket::AgentSocket;
use quell_command::programs::{self, Poster};
use quell_command::{progress, units};

/// Load a server with requests at fixed times, and measure every latency from the time that was intended.
///
/// The schedule is drawn from the seed before the first request and does not wait for answers (open loop), so a
/// server that stalls shows the stall. The report also says how late the generator itself was. The server is asked for its
/// version first; the keys that the load writes are deleted at the end, also at Ctrl-C.
#[derive(Args)]
pub struct Arguments {
    /// The server: HOST:PORT, unix:PATH, memcached://HOST:PORT, redis://HOST:PORT, redis-hash://HOST:PORT (HSET, HGET) or http://HOST:PORT/PATH [default:
    /// 127.0.0.1 and the protocol's usual port]
    #[arg(long)]
    target: Option<String>,
    /// The server, as with --target
    #[arg(value_name = "URL", conflicts_with = "target")]
    url: Option<String>,
    /// What the server speaks [default: as the target's URL says, or memcached]
    #[arg(long, value_enum)]
    protocol: Option<ProtocolName>,
    /// Allow a target on another machine; only with its operator's consent
    #[arg(long)]
    remote: bool,
    /// Mean requests per second, for example 300, 20k or 1.5M
    #[arg(long, default_value = "20k", allow_negative_numbers = true, value_parser = units::rate)]
    rate: f64,
    /// Measured time, for example 10s or 500ms
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = units::positive_duration, allow_negative_numbers = true)]
    duration: Nanos,
    /// Time before it that is sent and not counted
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = units::duration, allow_negative_numbers = true)]
    warmup: Nanos,
    /// How long to wait for the last answers
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = units::duration, allow_negative_numbers = true)]
    drain: Nanos,
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
    #[arg(long, default_value = "20ms", value_name = "TIME", value_parser = units::positive_duration, allow_negative_numbers = true)]
    burst_length: Nanos,
    /// Connections, used in turn
    #[arg(long, default_value_t = 8)]
    connections: u32,
    /// Share of requests that are sets (0 to 1) [default: 0.1; HTTP has none]
    #[arg(long)]
    set_ratio: Option<f64>,
    /// No sets, as --set-ratio 0; with --no-preload nothing at all is written
    #[arg(long, conflicts_with = "set_ratio")]
    get_only: bool,
    /// Number of different keys
    #[arg(long, default_value_t = 10_000)]
    keys: u32,
    /// Bytes in every value
    #[arg(long, default_value_t = 100)]
    value_size: u32,
    /// Do not store the keys beforehand: gets then find nothing
    #[arg(long)]
    no_preload: bool,
    /// Leave the keys on the server, for a later run with --no-preload
    #[arg(long)]
    keep_keys: bool,
    /// Fixes the schedule
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Protect the generator: run its thread as SCHED_FIFO with this priority (needs CAP_SYS_NICE; at a rate that it
    /// cannot keep it occupies a whole CPU)
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, default_missing_value = "10", require_equals = true)]
    realtime: Option<u8>,
    /// Post the latency to the running agent once a second, as this workload's: what `slo` and the policy parties need
    #[arg(long, value_name = "WORKLOAD")]
    post: Option<String>,
    #[command(flatten)]
    agent: AgentSocket,
    /// Print the whole report as JSON
    #[arg(long)]
    json: bool,
}

/// [`Protocol`] on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum ProtocolName {
    /// The memcached text protocol: get and set
    Memcached,
    /// Redis's protocol: GET and SET
    Redis,
    /// HTTP/1.1: GET of one path
    Http,
}

impl From<ProtocolName> for Protocol {
    fn from(name: ProtocolName) -> Protocol {
        match name {
            ProtocolName::Memcached => Protocol::Memcached,
            ProtocolName::Redis => Protocol::Redis,
            ProtocolName::Http => Protocol::Http,
        }
    }
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
    /// Protocol, address and path.
    fn server(&self) -> Result<(Protocol, Target, String)> {
        let asked = self.protocol.map(Protocol::from);
        let endpoint: Option<Endpoint> = self.target.as_deref().or(self.url.as_deref()).map(str::parse).transpose()?;
        let said = endpoint.as_ref().and_then(|endpoint| endpoint.protocol);
        if let (Some(asked), Some(said)) = (asked, said)
            && asked != said
        {
            bail!("--protocol {}: the target's URL says {}; give one of them", asked.name(), said.name());
        }
        let protocol = asked.or(said).unwrap_or_default();
        let (target, path) = match endpoint {
            Some(endpoint) => (endpoint.target, endpoint.path),
            None => (Target::Tcp(format!("127.0.0.1:{}", protocol.usual_port())), None),
        };
        // What cannot be resolved cannot be reached either, and is refused with that.
        if !self.remote && !target.is_loopback().unwrap_or(true) {
            bail!(
                "target: {target} is not on loopback; give a loopback address, or --remote if its operator allows the load"
            );
        }
        Ok((protocol, target, path.unwrap_or_else(|| "/".into())))
    }

    fn spec(&self) -> Result<LoadSpec> {
        let (protocol, target, path) = self.server()?;
        let usual_sets = if self.get_only || protocol == Protocol::Http { 0.0 } else { 0.1 };
        let spec = LoadSpec {
            target,
            protocol,
            path,
            rate: self.rate,
            arrivals: match self.arrivals {
                Spread::Poisson => Arrivals::Poisson,
                Spread::Fixed => Arrivals::Fixed,
                Spread::Bursty => Arrivals::Bursty {
                    factor: self.burst_factor,
                    fraction: self.burst_share,
                    burst_ns: self.burst_length.0,
                },
            },
            duration_ns: self.duration.0,
            warmup_ns: self.warmup.0,
            drain_ns: self.drain.0,
            connections: self.connections,
            set_ratio: self.set_ratio.unwrap_or(usual_sets),
            keys: self.keys,
            value_bytes: self.value_size,
            preload: !self.no_preload,
            keep_keys: self.keep_keys,
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
    let poster = match &arguments.post {
        Some(workload) => Some(Poster::new(arguments.agent.client()?, workload)?),
        None => None,
    };
    let monitor = programs::load::monitor(poster.is_some())?;
    let begin = format!("{}: {}; {}", spec.target, load::greet(&spec)?, what_it_writes(&spec));
    eprintln!("{}", Screen::of_errors().wrap(&begin));
    let (report, posted) = programs::load::run(&spec, &monitor, poster, |ended| show_progress(&spec, &monitor, ended))?;
    if let Some(line) = posted {
        eprintln!("{line}");
    }
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", text(&report, &Screen::here()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the load leaves on the server meanwhile, for people.
fn what_it_writes(spec: &LoadSpec) -> String {
    if !spec.writes_keys() {
        return "nothing is written there".into();
    }
    let last = spec.keys - 1;
    format!(
        "writes {} keys of {} (quell0000000000 to quell{last:010}){}",
        spec.keys,
        human::bytes(u64::from(spec.value_bytes)),
        if spec.keep_keys { ", and leaves them there" } else { ", and deletes them at the end" },
    )
}

fn show_progress(spec: &LoadSpec, monitor: &Monitor, finished: impl Fn() -> bool) {
    let preparing = progress::bar(0, "{msg}");
    let what = if spec.stores_keys() { "storing its keys" } else { "connecting" };
    preparing.set_message(format!("{}: {what}", spec.target));
    while !finished() && monitor.planned.load(Relaxed) == 0 {
        preparing.tick();
        thread::sleep(Duration::from_millis(100));
    }
    preparing.finish_and_clear();
    let bar = progress::bar(monitor.planned.load(Relaxed), "{msg} {wide_bar} {pos}/{len} requests, {eta} left");
    bar.set_message(format!("loading {}", spec.target));
    while !finished() {
        bar.set_position(monitor.due.load(Relaxed));
        thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}

/// The report for people.
fn text(report: &LoadReport, screen: &Screen) -> String {
    let spec = &report.spec;
    let counts = &report.counts;
    let mut lines = vec![
        screen.wrap(&format!(
            "{} ({}): {} asked, {} served for {} ({} connections, {}, seed {})",
            spec.target,
            report.server,
            human::rate(report.offered_per_s),
            human::rate(report.served_per_s),
            human::nanoseconds(report.measured_ns),
            spec.connections,
            match spec.protocol {
                Protocol::Http => format!("GET {}", spec.path),
                _ => format!(
                    "{} sets, {} values",
                    human::percent(spec.set_ratio),
                    human::bytes(u64::from(spec.value_bytes))
                ),
            },
            spec.seed,
        )),
        table(
            ["", "p50", "p90", "p99", "p99.9", "max", "mean"],
            [row("latency", &report.latency), interval_row(&report.latency), row("own lateness", &report.lateness)],
        )
        .least(["p90", "mean"])
        .fit(screen),
        screen.wrap(&format!(
            "{} answered ({} hits, {} misses), {} refused, {} unanswered; generator used {:.2} CPUs{}; hypervisor took {}",
            counts.answered,
            counts.hits,
            counts.misses,
            counts.refused,
            counts.unanswered,
            report.generator_cpus,
            spec.realtime.map_or(String::new(), |p| format!(" (SCHED_FIFO {p})")),
            report.stolen.map_or("?".into(), human::percent),
        )),
    ];
    lines.extend(report.caveats().iter().map(|text| screen.wrap(&format!("! {text}"))));
    lines.join("\n") + "\n"
}

/// With fewer than ten values beyond it a quantile is a matter of a few accidents.
fn is_sound(distribution: &Distribution, quantile: &Quantile) -> bool {
    distribution.histogram.count() >= needed(quantile.q)
}

fn row(name: &str, distribution: &Distribution) -> Vec<String> {
    let mut cells = vec![name.to_owned()];
    cells.extend(distribution.quantiles.iter().map(|quantile| match is_sound(distribution, quantile) {
        true => human::nanoseconds(quantile.ns),
        false => "–".into(),
    }));
    cells.push(human::nanoseconds(distribution.max_ns));
    cells.push(human::nanoseconds(distribution.mean_ns as u64));
    cells
}

fn interval_row(distribution: &Distribution) -> Vec<String> {
    let mut cells = vec!["  95 % interval".to_owned()];
    cells.extend(distribution.quantiles.iter().map(|quantile| match quantile.interval_ns {
        Some((low, high)) if is_sound(distribution, quantile) => human::range(low, high),
        _ => "–".into(),
    }));
    cells.extend([String::new(), String::new()]);
    cells
}
