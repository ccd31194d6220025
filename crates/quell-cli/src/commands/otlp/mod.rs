//! `quell otlp`: the agent's metrics for an OpenTelemetry collector.

mod convert;

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use quell_agent::api::Client;
use quell_agent::api::wire::Status;
use quell_agent::metrics;
use quell_command::units;
use quell_model::{Nanos, foreign};
use rustix::system::uname;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::agent_socket::AgentSocket;
use convert::Starts;

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

    /// Its addresses now.
    fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> =
            self.host.to_socket_addrs().with_context(|| format!("{} is unknown", self.host))?.collect();
        if found.is_empty() { Err(anyhow!("{} has no address", self.host)) } else { Ok(found) }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let sender = Sender {
        collector: Collector::parse(&arguments.to)?,
        client: arguments.agent.client()?,
        starts: Starts::default(),
    };
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // A collector may be slow: a signal ends the command meanwhile, too.
    let (ends, ended) = channel();
    let (by_signal, to, every, once) = (ends.clone(), arguments.to.clone(), arguments.every, arguments.once);
    std::thread::spawn(move || {
        let _ = signals.forever().next();
        let ended = if once { Err(anyhow!("interrupted")) } else { Ok(()) };
        // The command may have ended.
        let _ = by_signal.send(ended);
    });
    std::thread::spawn(move || {
        let _ = ends.send(sender.run(&to, every, once));
    });
    ended.recv()?.map(|()| ExitCode::SUCCESS)
}

/// What sends.
struct Sender {
    collector: Collector,
    client: Client,
    starts: Starts,
}

impl Sender {
    fn run(mut self, to: &str, every: Nanos, once: bool) -> Result<()> {
        let mut trouble = None;
        loop {
            match self.send() {
                sent if once => return sent,
                Ok(()) => {
                    if trouble.take().is_some() {
                        eprintln!("quell: metrics arrive at {to} again");
                    }
                }
                Err(error) => {
                    let text = format!("{error:#}");
                    if trouble.as_ref() != Some(&text) {
                        eprintln!("quell: {text}; it is tried again every {every}");
                        trouble = Some(text);
                    }
                }
            }
            std::thread::sleep(Duration::from_nanos(every.0));
        }
    }

    fn send(&mut self) -> Result<()> {
        let status: Status = self.client.get("/v1/status")?;
        let names = uname();
        let from = convert::Source {
            host: names.nodename().to_string_lossy().into_owned(),
            version: status.agent.version.clone(),
            now: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        };
        let body = serde_json::to_vec(&convert::request(&metrics::text(&status), &from, &mut self.starts))?;
        let Collector { host, path } = &self.collector;
        let answer = quell_scrape::push::json(&self.collector.addresses()?, host, path, body)
            .with_context(|| format!("the collector at http://{host}{path}"))?;
        match rejected(&answer) {
            Some(why) => Err(anyhow!("the collector at http://{host}{path} rejected {why}")),
            None => Ok(()),
        }
    }
}

/// What a collector did not take of a request that it accepted: `partialSuccess`, a count as a number or as text.
fn rejected(answer: &[u8]) -> Option<String> {
    let answer: serde_json::Value = serde_json::from_slice(answer).ok()?;
    let part = answer.get("partialSuccess")?;
    let count = part.get("rejectedDataPoints")?;
    let count = count.as_u64().or_else(|| count.as_str()?.parse().ok()).filter(|count| *count > 0)?;
    let why = part.get("errorMessage").and_then(serde_json::Value::as_str).unwrap_or("no reason given");
    Some(format!("{}: {}", quell_model::amount(usize::try_from(count).ok()?, "sample", "samples"), foreign::text(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_rejected_is_said() {
        assert_eq!(rejected(b"{}"), None);
        assert_eq!(rejected(b"{\"partialSuccess\":{}}"), None);
        let answer = b"{\"partialSuccess\":{\"rejectedDataPoints\":\"3\",\"errorMessage\":\"too\\nold\"}}";
        assert_eq!(rejected(answer).as_deref(), Some("3 samples: too\\nold"));
    }

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
