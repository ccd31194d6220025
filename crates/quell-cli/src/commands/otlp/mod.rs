//! `quell otlp`: the agent's metrics for an OpenTelemetry collector.

mod convert;

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use quell_agent::api::Client;
use quell_agent::api::wire::Status;
use quell_agent::metrics;
use quell_command::units;
use quell_model::Nanos;
use rustix::system::uname;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::agent_socket::AgentSocket;

/// Send the agent's metrics to an OpenTelemetry collector (OTLP over HTTP, JSON), until Ctrl-C.
///
/// Any user that may read the status may run this; the agent itself opens no connection. A collector that scrapes Prometheus needs
/// none of this: it reads `metrics.listen` of the configuration.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    agent: AgentSocket,
    /// The collector; only http: a collector on this machine forwards over TLS
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4318/v1/metrics")]
    to: String,
    /// Time between two of them
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = units::positive_duration)]
    every: Nanos,
    /// Send them once; the exit status says whether they arrived
    #[arg(long)]
    once: bool,
}

/// Where they are sent.
struct Collector {
    host: String,
    path: String,
}

impl Collector {
    fn parse(url: &str) -> Result<Collector> {
        let fix = "such as http://127.0.0.1:4318/v1/metrics";
        let rest =
            url.strip_prefix("http://").ok_or_else(|| anyhow!("--to {url}: no http:// address; give one {fix}"))?;
        let (host, path) = match rest.split_once('/') {
            Some((host, path)) => (host, format!("/{path}")),
            None => (rest, "/v1/metrics".to_owned()),
        };
        let host = if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
            host.to_owned()
        } else {
            format!("{host}:4318")
        };
        if host.starts_with(':') {
            return Err(anyhow!("--to {url}: no host; give one {fix}"));
        }
        Ok(Collector { host, path })
    }

    /// Its address now.
    fn address(&self) -> Result<SocketAddr> {
        let found = self.host.to_socket_addrs().with_context(|| format!("{} is unknown", self.host))?.next();
        found.ok_or_else(|| anyhow!("{} has no address", self.host))
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let collector = Collector::parse(&arguments.to)?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let client = arguments.agent.client()?;
    let (began, mut trouble) = (since_1970(), None);
    loop {
        match send(&client, &collector, began) {
            Ok(()) if arguments.once => return Ok(ExitCode::SUCCESS),
            Err(error) if arguments.once => return Err(error),
            Ok(()) => {
                if trouble.take().is_some() {
                    eprintln!("quell: metrics arrive at {} again", arguments.to);
                }
            }
            Err(error) => {
                let text = format!("{error:#}");
                if trouble.as_ref() != Some(&text) {
                    eprintln!("quell: {text}; it is tried again every {}", arguments.every);
                    trouble = Some(text);
                }
            }
        }
        if waited(&mut signals, Duration::from_nanos(arguments.every.0)) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn send(client: &Client, to: &Collector, began: Duration) -> Result<()> {
    let status: Status = client.get("/v1/status")?;
    let names = uname();
    let from = convert::Source {
        host: names.nodename().to_string_lossy().into_owned(),
        version: status.agent.version.clone(),
        began,
        now: since_1970(),
    };
    let body = serde_json::to_vec(&convert::request(&metrics::text(&status), &from))?;
    let sent = quell_scrape::push::json(to.address()?, &to.host, &to.path, body);
    sent.map_err(|why| anyhow!("no collector at http://{}{}: {why}", to.host, to.path))
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Waits; has a signal come meanwhile?
fn waited(signals: &mut Signals, time: Duration) -> bool {
    let begun = std::time::Instant::now();
    while begun.elapsed() < time {
        if signals.pending().next().is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(100).min(time.saturating_sub(begun.elapsed())));
    }
    signals.pending().next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_has_a_usual_port_and_page() {
        let parsed = |url| Collector::parse(url).map(|it| format!("{} {}", it.host, it.path));
        assert_eq!(parsed("http://127.0.0.1:9/x/y").unwrap(), "127.0.0.1:9 /x/y");
        assert_eq!(parsed("http://otel").unwrap(), "otel:4318 /v1/metrics");
        assert_eq!(parsed("http://[::1]:4318/").unwrap(), "[::1]:4318 /");
        assert!(parsed("https://otel").unwrap_err().to_string().contains("; give one such as http://"));
        assert!(parsed("http://:80/").unwrap_err().to_string().contains("no host"));
    }
}
