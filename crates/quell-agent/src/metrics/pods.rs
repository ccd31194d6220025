//! The node's pods: what a workload is in Kubernetes, to be joined by its name.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Numbers;
use crate::wire::{Kubernetes, Pod};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPod {
    workload: String,
    namespace: String,
    pod: String,
    uid: String,
    qos: String,
    class: String,
    reservation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfContainer {
    workload: String,
    namespace: String,
    pod: String,
    container: String,
}

/// Registers what is known; nothing where the agent has no part in Kubernetes.
pub(super) fn register(registry: &mut Registry, kubernetes: Option<&Kubernetes>) {
    let Some(kubernetes) = kubernetes else { return };
    let connected = Gauge::<i64>::default();
    connected.set(kubernetes.runtime.is_some().into());
    registry.register(
        "kubernetes_runtime_connected",
        "Whether the container runtime asks about pods: 1 yes",
        connected,
    );
    let (pods, containers, own) = (Numbers::<OfPod>::default(), Numbers::default(), Numbers::default());
    for pod in &kubernetes.pods {
        pods.get_or_create(&labels(pod)).set(1.0);
        if let Some(cpus) = pod.cpus.as_ref().and_then(|cpus| cpus.parse::<quell_model::CpuSet>().ok()) {
            own.get_or_create(&labels(pod)).set(cpus.len() as f64);
        }
        for container in &pod.containers {
            let label = OfContainer {
                workload: pod.workload.clone(),
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                container: container.name.clone(),
            };
            containers.get_or_create(&label).set(container.cpus_requested);
        }
    }
    registry.register("pod_info", "What the workload is in Kubernetes; always 1", pods);
    registry.register("pod_cpus_own", "CPUs that the strict pod has for itself", own);
    registry.register("pod_container_cpus_requested", "CPUs that the container requests", containers);
    let again = prometheus_client::metrics::counter::Counter::<u64>::default();
    again.inc_by(kubernetes.set_again);
    let help = "Times that another program had changed a file of a pod's cgroup, and it was set again";
    registry.register("pod_files_set_again", help, again);
}

fn labels(pod: &Pod) -> OfPod {
    OfPod {
        workload: pod.workload.clone(),
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        qos: pod.qos.clone(),
        class: pod.class.clone(),
        reservation: if pod.is_strict { "strict" } else { "standard" },
    }
}
