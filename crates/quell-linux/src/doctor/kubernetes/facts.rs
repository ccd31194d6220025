//! Facts read from a node, plain data.

use std::path::PathBuf;

use serde::Serialize;

use super::super::{CgroupV1, Valued};

/// What makes the cgroups of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// systemd, as slices below `kubepods.slice`.
    Systemd,
    /// The kubelet and the runtime themselves, below `kubepods`.
    Cgroupfs,
}

impl Driver {
    /// As the kubelet's configuration calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Driver::Systemd => "systemd",
            Driver::Cgroupfs => "cgroupfs",
        }
    }
}

/// A container runtime, by its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// containerd.
    Containerd,
    /// CRI-O.
    CriO,
    /// Docker, behind cri-dockerd.
    Docker,
}

impl Runtime {
    /// As its project calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Containerd => "containerd",
            Runtime::CriO => "CRI-O",
            Runtime::Docker => "Docker (cri-dockerd)",
        }
    }
}

/// All facts. A thing that does not exist on this node is None or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The kubelet's folder.
    pub kubelet: Option<PathBuf>,
    /// The policy in the state file of the kubelet's CPU manager.
    pub cpu_manager: Option<Valued<String>>,
    /// The CPUs that the kubelet's configuration keeps for the system.
    pub reserved_by_kubelet: Option<Valued<String>>,
    /// The cgroups of all pods, one for each driver that has made one.
    pub pods: Vec<Valued<Driver>>,
    /// What those cgroups give on to the pods (`cgroup.subtree_control`), where it lacks cpu or cpuset.
    pub withheld: Vec<Valued<String>>,
    /// systemd's folder, where it runs.
    pub systemd: Option<PathBuf>,
    /// The controllers of the cgroup v2 root; None: no cgroup v2.
    pub cgroup_v2: Option<Valued<String>>,
    /// Mounted cgroup v1 hierarchies with the controllers cpu or cpuset.
    pub cgroup_v1: Vec<CgroupV1>,
    /// What shows that real-time CPU time is divided among cgroups (RT group scheduling).
    pub rt_groups: Option<Valued<String>>,
    /// The sockets of container runtimes.
    pub runtimes: Vec<Valued<Runtime>>,
    /// The runtime's socket for plug-ins.
    pub nri: Option<PathBuf>,
    /// Files of other plug-ins that the runtime starts, and their configurations.
    pub plugins: Vec<PathBuf>,
    /// Processes of programs that set the CPUs of pods, too: each one's `comm`.
    pub rivals: Vec<Valued<String>>,
    /// The CPUs of `isolcpus=` with domain isolation.
    pub isolcpus: Option<Valued<String>>,
    /// Files that are there and could not be read, with the reason.
    pub unread: Vec<String>,
}

impl Facts {
    /// The driver, where there is one alone.
    #[must_use]
    pub fn driver(&self) -> Option<Driver> {
        match &self.pods[..] {
            [one] => Some(one.value),
            _ => None,
        }
    }
}
