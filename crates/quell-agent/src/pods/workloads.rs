//! Pods as the loop has them: workloads.

use std::collections::BTreeSet;
use std::path::PathBuf;

use quell_model::{CpuCount, Selector, Workload};
use quell_pods::{Class, PodView};

use crate::config::PodWorkload;

/// The pods that have a cgroup and a container that runs, in their order.
pub(super) fn workloads(pods: &[PodView], guards: bool) -> Vec<PodWorkload> {
    let (mut found, mut names) = (Vec::new(), BTreeSet::new());
    for pod in pods {
        let Some(cgroup) = pod.cgroup.as_ref().filter(|_| pod.containers.iter().any(|container| container.is_running))
        else {
            continue;
        };
        let name = format!("{}/{}", pod.sandbox.namespace, pod.sandbox.name);
        let (class, cpus) = match pod.class {
            Class::LatencyCritical if guards => (quell_model::Class::LatencyCritical, pod.requested),
            // Nothing acts on a request of theirs.
            Class::LatencyCritical => (quell_model::Class::LatencyCritical, CpuCount::ZERO),
            Class::BestEffort | Class::Unmanaged => (quell_model::Class::BestEffort, CpuCount::ZERO),
        };
        let workload = Workload {
            // Beyond its limit a real-time thread would go on: SCHED_FIFO escapes cpu.max.
            // A strict pod's CPUs are its limit, and its quota is lifted.
            limit: pod
                .limit
                .filter(|limit| guards && pod.class == Class::LatencyCritical && !pod.strict && *limit >= cpus),
            selectors: vec![Selector::Cgroup(PathBuf::from(cgroup))],
            ..Workload::new(name, class, cpus)
        };
        // A name is the cluster's word: one that the agent cannot show is none of its workloads. Nor are two of one name.
        if workload.check().is_ok() && names.insert(workload.name.clone()) {
            let is_managed = guards && pod.class == Class::LatencyCritical;
            found.push(PodWorkload { workload, is_managed });
        }
    }
    found
}
