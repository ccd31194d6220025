//! The node's pods.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The agent's part in Kubernetes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kubernetes {
    /// `observe`: pods are only shown; `enforce`: classes and reservations are kept.
    pub mode: String,
    /// The container runtime that asks, name and version; null: not connected.
    pub runtime: Option<String>,
    /// Why the runtime is not connected.
    pub not_connected: Option<String>,
    /// The CPUs of all containers without CPUs of their own.
    pub shared_cpus: String,
    /// The CPUs that strict pods have; empty: none.
    pub strict_cpus: String,
    /// Times that another program had changed a pod's file, and it was set again.
    pub set_again: u64,
    /// What could not be set in pods' cgroups, one line each.
    pub refused: Vec<String>,
    /// The pods, by namespace and name.
    pub pods: Vec<Pod>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its workload's name, where it has a container that runs.
    pub workload: String,
    /// `Guaranteed`, `Burstable` or `BestEffort`.
    pub qos: String,
    /// `lc`, `be` or `none`: not managed.
    pub class: String,
    /// Has it CPUs of its own?
    pub is_strict: bool,
    /// CPUs that its containers request.
    pub cpus_requested: f64,
    /// Their limit; null: one of them has none.
    pub cpus_limit: Option<f64>,
    /// CPUs of its own; null: it shares.
    pub cpus: Option<String>,
    /// Its cgroup, below the root of cgroups.
    pub cgroup: Option<String>,
    /// Its containers.
    pub containers: Vec<PodContainer>,
    /// What is not as its labels ask, one line each, with the fix.
    pub remarks: Vec<String>,
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PodContainer {
    /// Its name.
    pub name: String,
    /// The runtime's id.
    pub id: String,
    /// CPUs that it requests.
    pub cpus_requested: f64,
    /// Does it run?
    pub is_running: bool,
}
