//! What the API shows of the node's pods.

use quell_model::foreign;
use quell_pods::{Class, Mode, Node, PodView, Qos};

use super::files::Files;
use crate::wire;

/// The runtime at the other end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Connection {
    /// Name and version; None: not connected.
    pub runtime: Option<String>,
    /// Why not.
    pub why_not: Option<String>,
}

/// The node as the API has it; `lacks` is what is not set at all though the configuration asks for it, and why.
pub(super) fn kubernetes<'a>(
    (node, pods): (&Node, &[PodView]),
    mode: Mode,
    connection: &Connection,
    files: &Files,
    lacks: impl Iterator<Item = &'a str>,
) -> wire::Kubernetes {
    wire::Kubernetes {
        mode: match mode {
            Mode::Observe => "observe",
            Mode::Enforce => "enforce",
        }
        .into(),
        runtime: connection.runtime.clone(),
        not_connected: connection.why_not.clone(),
        shared_cpus: node.shared().to_string(),
        strict_cpus: node.reserved_for_strict().to_string(),
        set_again: files.set_again,
        refused: lacks.map(str::to_owned).chain(files.refused.values().cloned()).collect(),
        pods: pods.iter().map(pod).collect(),
    }
}

fn pod(pod: &PodView) -> wire::Pod {
    let word = |text: &str| foreign::text(text).into_owned();
    wire::Pod {
        namespace: word(&pod.sandbox.namespace),
        name: word(&pod.sandbox.name),
        uid: word(&pod.sandbox.uid),
        workload: format!("{}/{}", word(&pod.sandbox.namespace), word(&pod.sandbox.name)),
        qos: match pod.qos {
            Some(Qos::Guaranteed) => "Guaranteed",
            Some(Qos::Burstable) => "Burstable",
            Some(Qos::BestEffort) => "BestEffort",
            None => "unknown",
        }
        .into(),
        class: match pod.class {
            Class::LatencyCritical => "lc",
            Class::BestEffort => "be",
            Class::Unmanaged => "none",
        }
        .into(),
        is_strict: pod.strict,
        cpus_requested: pod.requested.as_f64(),
        cpus_limit: pod.limit.map(|limit| limit.as_f64()),
        cpus: pod.cpus.map(|cpus| cpus.to_string()),
        cgroup: pod.cgroup.as_deref().map(word),
        containers: pod
            .containers
            .iter()
            .map(|container| wire::PodContainer {
                name: word(&container.name),
                id: word(&container.id),
                cpus_requested: container.requested.as_f64(),
                is_running: container.is_running,
            })
            .collect(),
        remarks: pod.remarks.iter().map(|remark| word(remark)).collect(),
    }
}
