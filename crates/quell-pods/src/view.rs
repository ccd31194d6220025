//! What there is to show of a pod.

use quell_model::{CpuCount, CpuSet};

use crate::class::Class;
use crate::pod::Sandbox;
use crate::qos::Qos;

/// A pod as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct PodView {
    /// The pod.
    pub sandbox: Sandbox,
    /// Its class in Kubernetes; none if its cgroup is not a pod's.
    pub qos: Option<Qos>,
    /// Its class here.
    pub class: Class,
    /// Does it ask for CPUs of its own, and may it?
    pub strict: bool,
    /// The sum of its containers' requests.
    pub requested: CpuCount,
    /// The sum of its containers' limits, if each has one.
    pub limit: Option<CpuCount>,
    /// Its own CPUs.
    pub cpus: Option<CpuSet>,
    /// Its cgroup below the root, without a slash in front.
    pub cgroup: Option<String>,
    /// Its containers, by name.
    pub containers: Vec<ContainerView>,
    /// What its owner should know, each with the fix.
    pub remarks: Vec<String>,
}

/// A container as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerView {
    /// Its name in the pod.
    pub name: String,
    /// The runtime's id.
    pub id: String,
    /// Its CPU request.
    pub requested: CpuCount,
    /// Its own CPUs.
    pub cpus: Option<CpuSet>,
    /// Its cgroup below the root, without a slash in front.
    pub cgroup: Option<String>,
    /// Does it run?
    pub is_running: bool,
}
