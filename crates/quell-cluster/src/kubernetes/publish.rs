//! A node's side: writes its report, and takes off a mark that no controller keeps any more.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use quell_agent::api::Client;
use quell_agent::wire::Status;
use quell_model::Nanos;

use super::calls::Calls;
use super::driver::wall_ms;
use super::lease::Unchanged;
use super::{LABEL, LEASE, TAINT};
use crate::ClusterError;
use crate::contention::digest::Digest;
use crate::contention::pace::Pace;

/// Looks at the lease are this far apart.
const LOOK: Duration = Duration::from_secs(60);
/// Looks at the agent.
const EVERY: Duration = Duration::from_secs(10);
/// How soon it notices that it is to end.
const STEP: Duration = Duration::from_millis(200);

/// What is published, and where.
#[derive(Clone, Debug)]
pub struct Publish {
    /// This node's name.
    pub node: String,
    /// The agent's socket.
    pub socket: PathBuf,
    /// The namespace of the controller's lease.
    pub namespace: String,
    /// A mark without a leader is taken off after this time.
    pub orphaned: Duration,
}

/// Publishes until `stop` is set, and takes the report off then.
///
/// # Errors
/// If there is no client for the agent's socket.
pub fn publish(calls: &Calls, what: &Publish, stop: &AtomicBool) -> Result<(), ClusterError> {
    let agent = Client::new(&what.socket)
        .map_err(|error| ClusterError::Live { what: what.socket.display().to_string(), why: error.to_string() })?;
    let (mut digest, mut pace, begun) = (Digest::of(&what.node), Pace::default(), Instant::now());
    let mut orphans = Orphans::default();
    let mut looked: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        match agent.get::<Status>("/v1/status") {
            Ok(status) => {
                let report = digest.report(&status, wall_ms());
                let now = Nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
                if pace.is_due(now, &report) {
                    let written = report.text().and_then(|text| calls.report(&what.node, Some(&text)));
                    match written {
                        Ok(()) => pace.wrote(now, report),
                        Err(error) => tracing::warn!("{error}; trying again"),
                    }
                }
            }
            // The last report grows old by itself.
            Err(error) => tracing::warn!("{error}; trying again"),
        }
        let pause = LOOK.min(what.orphaned / 4);
        if looked.is_none_or(|at| at.elapsed() >= pause) {
            looked = Some(Instant::now());
            if let Err(error) = orphans.look(calls, what) {
                tracing::warn!("{error}; trying again");
            }
        }
        let end = Instant::now() + EVERY.min(pause.max(STEP));
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(STEP);
        }
    }
    // Best effort: the chart's roles may be gone before it.
    calls.report(&what.node, None)
}

/// The lease, as long as this node is marked.
#[derive(Default)]
struct Orphans(Unchanged<Option<String>>);

impl Orphans {
    fn look(&mut self, calls: &Calls, what: &Publish) -> Result<(), ClusterError> {
        let nodes: Api<Node> = Api::all(calls.client());
        let object = format!("node {}", what.node);
        let Some(node) = calls.wait("read", &object, nodes.get_opt(&what.node))? else { return Ok(()) };
        let is_tainted =
            node.spec.and_then(|spec| spec.taints).is_some_and(|taints| taints.iter().any(|it| it.key == TAINT));
        let is_labelled = node.metadata.labels.is_some_and(|labels| labels.contains_key(LABEL));
        if !is_tainted && !is_labelled {
            self.0 = Unchanged::default();
            return Ok(());
        }
        let leases: Api<Lease> = Api::namespaced(calls.client(), &what.namespace);
        let object = format!("lease {}/{LEASE}", what.namespace);
        let lease = calls.wait("read", &object, leases.get_opt(LEASE))?;
        let version = lease.and_then(|lease| lease.metadata.resource_version);
        if self.0.since(Instant::now(), version) >= what.orphaned {
            tracing::warn!("no controller for {:?}: the mark of {} goes", what.orphaned, what.node);
            calls.clean(&what.node, false)?;
            self.0 = Unchanged::default();
        }
        Ok(())
    }
}
