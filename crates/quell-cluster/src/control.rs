//! `quell-cluster run`, `publish` and `clean`: what lives beside a cluster of Kubernetes.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use quell_agent::api::Metrics;
use quell_cluster::folder::Folder;
use quell_cluster::kubernetes::{self, Bounds, Calls, Kubernetes, Leads, Mode, World};
use quell_cluster::live::{Board, control};
use quell_cluster::policy::{AnyClusterPolicy, SdcConfig, SdcGlobal};
use quell_command::signals;
use quell_model::cluster::Budget;
use quell_model::{Nanos, Policy as _};
use tracing_subscriber::EnvFilter;

/// Pause of a controller that does not lead.
const PAUSE: Duration = Duration::from_millis(200);

/// What a cluster is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DriverKind {
    /// Nodes and pods, by the API server of the environment: the service account, or KUBECONFIG
    Kubernetes,
}

/// Arguments of `run`.
#[derive(Args)]
pub struct Run {
    /// What the cluster is
    #[arg(long)]
    driver: DriverKind,
    /// What it may do
    #[arg(long, default_value = "recommend")]
    mode: Mode,
    /// Seconds between two rounds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// The namespace of the lease by which one of several controllers leads
    #[arg(long, default_value = "quell")]
    namespace: String,
    /// This controller's name in the lease [default: $POD_NAME, else one of this process]
    #[arg(long)]
    identity: Option<String>,
    /// The folder with its socket [default: quell-cluster in $XDG_RUNTIME_DIR, else in /run]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// What it does where it acts
    #[arg(long, value_enum, default_value = "moves")]
    policy: Acts,
    /// Evictions at once in the cluster
    #[arg(long, default_value_t = Bounds::default().budget.at_once)]
    at_once: u32,
    /// Evictions at once from or to a node
    #[arg(long, default_value_t = Bounds::default().budget.per_host)]
    per_node: u32,
    /// Evictions of a workload in an hour
    #[arg(long, default_value_t = Bounds::default().budget.per_hour)]
    per_hour: u32,
    /// Evictions in an hour for the services of one namespace
    #[arg(long, default_value_t = Bounds::default().per_namespace)]
    per_namespace: u32,
    /// Seconds in which a workload stays after a move
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    cool_down: u64,
    /// An address for Prometheus, of the loopback interface unless there is a token
    #[arg(long)]
    metrics: Option<SocketAddr>,
    /// The file of the token that is to be shown there
    #[arg(long, requires = "metrics")]
    metrics_token: Option<PathBuf>,
}

/// What a controller does.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Acts {
    /// Marks nodes, and moves best-effort pods first
    Moves,
    /// Marks nodes
    Marks,
    /// Algorithm 5.1 as printed, to compare with: no marks, services first, nothing judged
    Published,
}

impl Acts {
    fn config(self) -> SdcConfig {
        match self {
            Acts::Moves => SdcConfig::beside(true),
            Acts::Marks => SdcConfig::beside(false),
            Acts::Published => SdcConfig::published_beside(),
        }
    }
}

/// Arguments of `publish`.
#[derive(Args)]
pub struct Publish {
    /// This node's name
    #[arg(long)]
    node: String,
    /// The agent's socket
    #[arg(long, default_value = "/run/quell/api.sock")]
    socket: PathBuf,
    /// The namespace of the controller's lease
    #[arg(long, default_value = "quell")]
    namespace: String,
    /// Seconds after which a mark without a leader is taken off
    #[arg(long, default_value_t = 600)]
    orphaned: u64,
}

fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,quell_cluster=info"));
    tracing_subscriber::fmt().with_writer(io::stderr).with_env_filter(filter).init();
}

impl Run {
    fn bounds(&self) -> Bounds {
        let budget = Budget {
            at_once: self.at_once,
            per_host: self.per_node,
            per_hour: self.per_hour,
            cool_down: Nanos::from_secs(self.cool_down),
        };
        Bounds { budget, per_namespace: self.per_namespace }
    }

    /// Leads, waits, and leads again, until a signal comes.
    pub fn run(&self) -> Result<()> {
        let DriverKind::Kubernetes = self.driver;
        log();
        let stop = Arc::new(AtomicBool::new(false));
        signals::set_on_interrupt(&stop)?;
        let folder = Folder::new(self.dir.as_deref());
        folder.make()?;
        let calls = Calls::connect()?;
        let (world, leads) = (World::default(), Leads::default());
        let own = || {
            format!("{}-{}", std::env::var("POD_NAME").unwrap_or_else(|_| "quell-cluster".into()), std::process::id())
        };
        let identity = self.identity.clone().unwrap_or_else(own);
        calls.spawn(kubernetes::follow(calls.client(), world.clone()));
        let namespace = self.namespace.clone();
        let campaign = kubernetes::campaign(calls.client(), namespace, identity.clone(), leads.clone());
        let campaign = calls.spawn(campaign);
        let mode = self.mode.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
        let about = format!("Kubernetes, mode {mode}, {identity}");
        let config = SdcConfig { interval: Nanos::from_secs(self.interval), ..self.policy.config() };
        let board = Board::new(&about, SdcGlobal::new(config).describe().name, true);
        let metrics = self.metrics.map(|listen| Metrics { listen, token: self.metrics_token.clone() });
        let api = match metrics {
            Some(metrics) => folder.serve_with_metrics(board.clone(), &metrics)?,
            None => folder.serve(board.clone())?,
        };
        let stopped = || stop.load(Ordering::Relaxed);
        while !stopped() {
            if !(leads.stands() && world.is_listed()) {
                std::thread::sleep(PAUSE);
                continue;
            }
            writeln!(io::stdout(), "{about}: leads")?;
            let mut driver = Kubernetes::new(calls.clone(), world.clone(), leads.clone(), self.mode, self.bounds());
            // What is known is what the API server says: a new leader begins with it.
            let policy = AnyClusterPolicy::Sdc(SdcGlobal::new(config));
            control(&mut driver, policy, &stop, |driver, stack, took| board.show(driver, stack, took))?;
            if !stopped() {
                writeln!(io::stdout(), "{about}: leads no more")?;
            }
        }
        campaign.abort();
        drop(api);
        calls.release(&self.namespace, &identity)?;
        Ok(())
    }
}

impl Publish {
    /// Publishes until a signal comes.
    pub fn run(&self) -> Result<()> {
        log();
        let stop = Arc::new(AtomicBool::new(false));
        signals::set_on_interrupt(&stop)?;
        let what = kubernetes::Publish {
            node: self.node.clone(),
            socket: self.socket.clone(),
            namespace: self.namespace.clone(),
            orphaned: Duration::from_secs(self.orphaned),
        };
        Ok(kubernetes::publish(&Calls::connect()?, &what, &stop)?)
    }
}

/// Takes everything off the nodes.
pub fn clean() -> Result<String> {
    let cleaned = kubernetes::clean(&Calls::connect()?)?;
    Ok(format!("{} nodes cleaned", cleaned.len()))
}
