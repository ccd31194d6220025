//! Pods.

use std::collections::BTreeMap;

use prost::Message;

use super::container::LinuxNamespace;
use super::resources::LinuxResources;

/// A pod's sandbox.
#[derive(Clone, PartialEq, Message)]
pub struct PodSandbox {
    /// The runtime's id of the sandbox.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The pod's name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The pod's uid: that of the API server, or of the file for a static pod.
    #[prost(string, tag = "3")]
    pub uid: String,
    /// The pod's namespace in Kubernetes.
    #[prost(string, tag = "4")]
    pub namespace: String,
    /// The pod's labels.
    #[prost(btree_map = "string, string", tag = "5")]
    pub labels: BTreeMap<String, String>,
    /// The pod's annotations.
    #[prost(btree_map = "string, string", tag = "6")]
    pub annotations: BTreeMap<String, String>,
    /// The handler of the pod's RuntimeClass; empty for the default.
    #[prost(string, tag = "7")]
    pub runtime_handler: String,
    /// What is particular to Linux.
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxPodSandbox>,
    /// The sandbox's process; 0 where the runtime does not say it.
    #[prost(uint32, tag = "9")]
    pub pid: u32,
    /// The pod's addresses.
    #[prost(string, repeated, tag = "10")]
    pub ips: Vec<String>,
}

/// Of a pod what is particular to Linux.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxPodSandbox {
    /// Overhead of the pod's RuntimeClass.
    #[prost(message, optional, tag = "1")]
    pub pod_overhead: Option<LinuxResources>,
    /// Sum of the containers' resources.
    #[prost(message, optional, tag = "2")]
    pub pod_resources: Option<LinuxResources>,
    /// The pod's cgroup, as the kubelet named it: a path, or a slice where systemd is the cgroup driver.
    #[prost(string, tag = "3")]
    pub cgroup_parent: String,
    /// The sandbox's own cgroup.
    #[prost(string, tag = "4")]
    pub cgroups_path: String,
    /// The sandbox's namespaces.
    #[prost(message, repeated, tag = "5")]
    pub namespaces: Vec<LinuxNamespace>,
    /// The sandbox's own resources.
    #[prost(message, optional, tag = "6")]
    pub resources: Option<LinuxResources>,
}
