//! NRI's pods and containers as plain data.

use nri::{ContainerState, LinuxCpu, LinuxResources, PodSandbox};
use quell_pods::{Container, Sandbox};

/// What the runtime says of a pod.
pub(super) fn sandbox(pod: PodSandbox) -> Sandbox {
    let linux = pod.linux.unwrap_or_default();
    let (cgroup, shares) = (linux.cgroup_parent, linux.pod_resources.as_ref().map_or(0, |sum| cpu(sum).shares));
    let PodSandbox { id, name, uid, namespace, labels, annotations, .. } = pod;
    Sandbox { id, uid, namespace, name, labels, annotations, cgroup, shares }
}

/// What the runtime says of a container.
pub(super) fn container(container: nri::Container) -> Container {
    // A paused one goes on without an event.
    let is_running =
        [ContainerState::Running, ContainerState::Paused].iter().any(|state| container.state == *state as i32);
    let linux = container.linux.unwrap_or_default();
    let cpu = linux.resources.as_ref().map(cpu).unwrap_or_default();
    Container {
        id: container.id,
        sandbox: container.pod_sandbox_id,
        name: container.name,
        cgroup: linux.cgroups_path,
        shares: cpu.shares,
        quota: cpu.quota,
        period: cpu.period,
        cpus: cpu.cpus,
        is_running,
    }
}

/// CPU time asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cpu {
    /// 1024 for one CPU; 0: none.
    pub shares: u64,
    /// In µs; 0 or less: none.
    pub quota: i64,
    /// In µs.
    pub period: u64,
    /// CPU list.
    pub cpus: String,
}

/// What resources say of CPUs.
pub(super) fn cpu(resources: &LinuxResources) -> Cpu {
    let cpu: LinuxCpu = resources.cpu.clone().unwrap_or_default();
    Cpu {
        shares: cpu.shares.unwrap_or(0),
        quota: cpu.quota.unwrap_or(0),
        period: cpu.period.unwrap_or(100_000),
        cpus: cpu.cpus,
    }
}
