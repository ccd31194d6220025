//! `quell-lab cluster fake-nodes`: reports for kwok's nodes from a simulated cluster, whose workloads are where the real scheduler put
//! their pods.

mod objects;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use clap::Args;
use quell_cluster::contention::pace::Pace;
use quell_cluster::kubernetes::{self, Calls, World};
use quell_cluster_sim::fake::{Change, Fake};
use quell_cluster_sim::scenario::Scenario;
use quell_command::output::WrongCommandLine;
use quell_command::signals;
use quell_model::Nanos;
use quell_model::cluster::HostId;
use serde::Serialize;

use objects::Objects;

/// Looks at the pods are this far apart.
const LOOK: Duration = Duration::from_millis(250);
/// The first pods are placed within this time, or the scenario begins without them.
const FIRST: Duration = Duration::from_secs(300);

/// Nodes of kwok's that report the contention of a simulated cluster, with the scenario's workloads as pods for the scheduler to place
#[derive(Args)]
pub struct Arguments {
    /// A shipped scenario's name, or a file
    pub scenario: String,
    /// Simulated seconds per second of real time; the controller's --interval and --cool-down are to be that much shorter
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// The namespace of the pods
    #[arg(long, default_value = "quell-lab")]
    namespace: String,
    /// Take away what an earlier run left, and end
    #[arg(long)]
    clean: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What came out.
#[derive(Serialize)]
struct Summary {
    simulated: Nanos,
    violated_minutes: f64,
    /// The same as a part of all minutes of services.
    violated: f64,
    best_effort_hours: f64,
    waiting_minutes: f64,
    /// Pods that lost their place before their end.
    displaced: u32,
    /// Reports written.
    reports: u64,
}

/// Runs the scenario to its end, or until a signal comes, and takes its objects away.
pub fn run(arguments: &Arguments, scenario: &Scenario) -> Result<ExitCode> {
    if !(arguments.speed.is_finite() && arguments.speed > 0.0) {
        bail!(WrongCommandLine(format!("--speed {}: give a number above 0, such as 15", arguments.speed)));
    }
    let stop = Arc::new(AtomicBool::new(false));
    signals::set_on_interrupt(&stop)?;
    let calls = Calls::connect()?;
    let objects = Objects::new(&calls, &arguments.namespace);
    objects.clean()?;
    if arguments.clean {
        return Ok(ExitCode::SUCCESS);
    }
    let mut cluster = Nodes::new(scenario, objects, arguments)?;
    calls.spawn(kubernetes::follow(calls.client(), cluster.world.clone()));
    let lived = cluster.live(arguments.speed, &stop);
    let cleaned = cluster.objects.clean();
    lived?;
    cleaned?;
    let summary = cluster.summary();
    if arguments.json {
        out!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        out!(
            "{} simulated: {:.1} min beyond SLO ({:.2} %), {:.1} CPU h of best-effort work, {:.1} min waiting, {} displaced",
            summary.simulated,
            summary.violated_minutes,
            100.0 * summary.violated,
            summary.best_effort_hours,
            summary.waiting_minutes,
            summary.displaced
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The nodes, and the cluster behind them.
struct Nodes {
    fake: Fake,
    objects: Objects,
    world: World,
    namespace: String,
    names: Vec<String>,
    paces: Vec<Pace>,
    written: u64,
    json: bool,
}

impl Nodes {
    fn new(scenario: &Scenario, objects: Objects, arguments: &Arguments) -> Result<Nodes> {
        let fake = Fake::new(scenario, scenario.seed)?;
        let names: Vec<String> = fake.sizes().map(|(host, _, _)| format!("fake-{}", host.0)).collect();
        Ok(Nodes {
            paces: vec![Pace::default(); names.len()],
            fake,
            objects,
            world: World::default(),
            namespace: arguments.namespace.clone(),
            names,
            written: 0,
            json: arguments.json,
        })
    }

    fn live(&mut self, speed: f64, stop: &AtomicBool) -> Result<()> {
        let sizes: Vec<_> = self.fake.sizes().map(|(host, cpus, memory)| (self.node(host), cpus, memory)).collect();
        self.objects.nodes(&sizes)?;
        let first = self.fake.pass(Nanos::ZERO);
        self.change(&first)?;
        // Time stands still until the first pods have their places.
        let begun = Instant::now();
        while self.fake.waiting() > 0 && begun.elapsed() < FIRST && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            self.look();
        }
        if !self.json {
            out!("{} nodes, {} pods placed, {} wait; time begins", self.names.len(), first.len(), self.fake.waiting());
        }
        let begun = Instant::now();
        while !self.fake.is_over() && !stop.load(Ordering::Relaxed) {
            let changes = self.fake.pass(Nanos((begun.elapsed().as_nanos() as f64 * speed) as u64));
            self.change(&changes)?;
            let pods = self.look();
            self.publish(&pods)?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn node(&self, host: HostId) -> String {
        self.names[host.index()].clone()
    }

    fn change(&self, changes: &[Change]) -> Result<()> {
        let came = changes.iter().filter_map(|change| match change {
            Change::Came(wanted) => Some(wanted),
            Change::Ended(_) => None,
        });
        let ended = changes.iter().filter_map(|change| match change {
            Change::Ended(name) => Some(name.as_str()),
            Change::Came(_) => None,
        });
        self.objects.make(came)?;
        self.objects.remove(ended)
    }

    /// Puts the workloads where their pods run; returns the pods by workload.
    fn look(&mut self) -> BTreeMap<String, String> {
        let (mut hosts, mut pods) = (BTreeMap::new(), BTreeMap::new());
        self.world.look(|objects| {
            let runs = objects.pods.values().filter(|pod| pod.namespace == self.namespace && pod.ready && !pod.leaving);
            for pod in runs {
                let (Some(node), Some(owner)) = (&pod.node, &pod.owner) else { continue };
                let Some(host) = node.strip_prefix("fake-").and_then(|at| at.parse().ok()) else { continue };
                hosts.insert(owner.name.clone(), HostId(host));
                pods.insert(owner.name.clone(), pod.path());
            }
        });
        self.fake.placed(&hosts);
        pods
    }

    fn publish(&mut self, pods: &BTreeMap<String, String>) -> Result<()> {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let now = self.fake.now();
        let names = &self.names;
        let reports = self.fake.reports(at, |host| names[host.index()].clone(), pods);
        let mut due = Vec::new();
        for (report, pace) in reports.into_iter().zip(&mut self.paces) {
            if !report.by.is_empty() && pace.is_due(now, &report) {
                due.push((report.node.clone(), report.text()?));
                pace.wrote(now, report);
            }
        }
        self.written += due.len() as u64;
        self.objects.report(due)
    }

    fn summary(&mut self) -> Summary {
        let simulated = self.fake.now();
        let (count, displaced) = self.fake.count();
        Summary {
            simulated,
            violated_minutes: count.violated / 60.0,
            violated: count.violated / count.served.max(1.0),
            best_effort_hours: count.best_effort / 3600.0,
            waiting_minutes: count.pending / 60.0,
            displaced,
            reports: self.written,
        }
    }
}
