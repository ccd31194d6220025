//! Nodes and pods, reduced to what placement needs.

use k8s_openapi::api::core::v1::{Node, NodeSpec, Pod, PodSpec, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use quell_model::cluster::{Contended, HostState, Movable};
use quell_model::{Class, CpuCount};
use std::collections::BTreeMap;

use super::{CLASS, LABEL, MOVE, TAINT};
use crate::contention::{ANNOTATION, LONGEST};

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSeen {
    /// Fitness.
    pub state: HostState,
    /// CPUs that there are.
    pub cores: CpuCount,
    /// CPUs that pods may request.
    pub cpus: CpuCount,
    /// Bytes that pods may request.
    pub memory: u64,
    /// Its mark.
    pub mark: Contended,
    /// Its report, as it was written.
    pub report: Option<String>,
}

/// The controller of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// `apps/v1`.
    pub api_version: String,
    /// `ReplicaSet`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// A pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: Option<String>,
    /// Its controller.
    pub owner: Option<Owner>,
    /// Latency-critical or not.
    pub class: Class,
    /// May it move?
    pub movable: Movable,
    /// CPUs requested.
    pub cpus: CpuCount,
    /// Bytes requested.
    pub memory: u64,
    /// It serves.
    pub ready: bool,
    /// It is on its way out.
    pub leaving: bool,
}

/// Kinds of owners that make another pod elsewhere: kind, group, plural.
pub const OWNERS: [(&str, &str, &str); 4] = [
    ("ReplicaSet", "apps", "replicasets"),
    ("StatefulSet", "apps", "statefulsets"),
    ("Job", "batch", "jobs"),
    ("VirtualMachineInstance", "kubevirt.io", "virtualmachineinstances"),
];

impl Owner {
    /// The plural of its kind, where it makes another pod elsewhere.
    #[must_use]
    pub fn plural(&self) -> Option<&'static str> {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        OWNERS.iter().find(|(kind, of, _)| *kind == self.kind && *of == group).map(|(_, _, plural)| *plural)
    }
}

impl PodSeen {
    /// `NAMESPACE/NAME`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The pod; None: it has ended.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<PodSeen> {
        let (meta, spec, status) = (&pod.metadata, pod.spec.as_ref()?, pod.status.as_ref());
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
        if phase == "Succeeded" || phase == "Failed" {
            return None;
        }
        let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let owner = owner.map(|owner| Owner {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        });
        let namespace = meta.namespace.clone().unwrap_or_default();
        let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
        let quality = status.and_then(|status| status.qos_class.as_deref()).unwrap_or_default();
        let class = match label(CLASS).unwrap_or_default() {
            "lc" => Some(Class::LatencyCritical),
            "be" => Some(Class::BestEffort),
            "none" => None,
            _ if quality == "Guaranteed" => Some(Class::LatencyCritical),
            _ if quality == "BestEffort" => Some(Class::BestEffort),
            _ => None,
        };
        let is_system = namespace == "kube-system";
        let can = owner.as_ref().is_some_and(|owner| owner.plural().is_some()) && !is_system;
        let allowed = match label(MOVE) {
            Some("evict") => true,
            // Never, and whatever is no word of ours.
            Some(_) => false,
            None => class == Some(Class::BestEffort),
        };
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let is_ready = |conditions: &Vec<k8s_openapi::api::core::v1::PodCondition>| {
            conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        Some(PodSeen {
            name: meta.name.clone().unwrap_or_default(),
            node: spec.node_name.clone().filter(|name| !name.is_empty()),
            class: class.unwrap_or(Class::BestEffort),
            movable: if can && allowed { Movable::Restart } else { Movable::Never },
            cpus: CpuCount(u32::try_from(requested(spec, "cpu")).unwrap_or(u32::MAX)),
            memory: requested(spec, "memory") / 1000,
            ready: conditions.is_some_and(is_ready),
            leaving: meta.deletion_timestamp.is_some(),
            namespace,
            owner,
        })
    }
}

/// Thousandths of what the containers request together.
fn requested(spec: &PodSpec, what: &str) -> u64 {
    let of = |container: &k8s_openapi::api::core::v1::Container| {
        let requests = container.resources.as_ref()?.requests.as_ref()?;
        thousandths(requests.get(what)?)
    };
    spec.containers.iter().filter_map(of).fold(0, u64::saturating_add)
}

impl NodeSeen {
    /// The node.
    #[must_use]
    pub fn of(node: &Node) -> NodeSeen {
        let empty = NodeSpec::default();
        let spec = node.spec.as_ref().unwrap_or(&empty);
        let status = node.status.as_ref();
        let ready = status.and_then(|status| status.conditions.as_ref()).is_some_and(|conditions| {
            conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        });
        let is_off = |taint: &Taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute";
        let taints = spec.taints.as_deref().unwrap_or_default();
        let state = match () {
            () if !ready => HostState::Unreachable,
            () if spec.unschedulable == Some(true) || taints.iter().any(is_off) => HostState::Draining,
            () => HostState::Ready,
        };
        let quantity =
            |of: Option<&BTreeMap<String, Quantity>>, what: &str| of.and_then(|of| thousandths(of.get(what)?));
        let [capacity, allocatable] =
            [status.and_then(|status| status.capacity.as_ref()), status.and_then(|status| status.allocatable.as_ref())];
        let cpus = |of| CpuCount(u32::try_from(quantity(of, "cpu").unwrap_or(0)).unwrap_or(u32::MAX));
        let meta = &node.metadata;
        let label = meta.labels.as_ref().and_then(|labels| labels.get(LABEL)).map(String::as_str);
        NodeSeen {
            state,
            cores: cpus(capacity.or(allocatable)),
            cpus: cpus(allocatable.or(capacity)),
            memory: quantity(allocatable.or(capacity), "memory").unwrap_or(0) / 1000,
            mark: match () {
                () if taints.iter().any(|taint| taint.key == TAINT) => Contended::Contended,
                () if label == Some("busy") => Contended::Busy,
                () => Contended::Quiet,
            },
            // Of one that is too long no more is kept than is needed to see it.
            report: meta.annotations.as_ref().and_then(|annotations| annotations.get(ANNOTATION)).map(|text| {
                let mut end = text.len().min(LONGEST + 1);
                while !text.is_char_boundary(end) {
                    end += 1;
                }
                text[..end].to_owned()
            }),
        }
    }
}

/// Thousandths of a quantity such as `500m`, `2`, `1Gi`; None: it is none.
fn thousandths(quantity: &Quantity) -> Option<u64> {
    let text = quantity.0.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let by = match unit {
        "m" => 1.0,
        "" => 1e3,
        "k" => 1e6,
        "M" => 1e9,
        "G" => 1e12,
        "T" => 1e15,
        "Ki" => 1e3 * 1024.0,
        "Mi" => 1e3 * 1_048_576.0,
        "Gi" => 1e3 * 1_073_741_824.0,
        "Ti" => 1e3 * 1_099_511_627_776.0,
        other => {
            let power = other.strip_prefix(['e', 'E'])?.parse::<u8>().ok().filter(|power| *power <= 18)?;
            1e3 * libm::pow(10.0, f64::from(power))
        }
    };
    Some((number.parse::<f64>().ok()? * by) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: serde_json::Value) -> Option<PodSeen> {
        PodSeen::of(&serde_json::from_value(value).unwrap())
    }

    fn owned(kind: &str, labels: &serde_json::Value, quality: &str) -> Movable {
        let owner =
            serde_json::json!({"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": true});
        pod(serde_json::json!({
            "metadata": {"name": "p", "namespace": "shop", "labels": labels, "ownerReferences": [owner]},
            "spec": {"containers": []}, "status": {"phase": "Running", "qosClass": quality},
        }))
        .unwrap()
        .movable
    }

    #[test]
    fn only_a_pod_whose_owner_makes_another_moves_and_a_critical_one_where_it_is_allowed() {
        let labels = |value: &str| serde_json::json!({MOVE: value});
        let none = serde_json::json!({});
        assert_eq!(owned("ReplicaSet", &none, "BestEffort"), Movable::Restart);
        assert_eq!(owned("ReplicaSet", &labels("never"), "BestEffort"), Movable::Never);
        assert_eq!(owned("ReplicaSet", &labels("nevr"), "BestEffort"), Movable::Never);
        assert_eq!(owned("ReplicaSet", &none, "Guaranteed"), Movable::Never);
        assert_eq!(owned("ReplicaSet", &labels("evict"), "Guaranteed"), Movable::Restart);
        assert_eq!(owned("ReplicaSet", &none, "Burstable"), Movable::Never);
        assert_eq!(owned("DaemonSet", &labels("evict"), "BestEffort"), Movable::Never);
        let bare = serde_json::json!({
            "metadata": {"name": "p", "namespace": "shop", "labels": labels("evict")}, "spec": {"containers": []},
            "status": {"qosClass": "BestEffort"},
        });
        assert_eq!(pod(bare).unwrap().movable, Movable::Never);
    }

    #[test]
    fn requests_and_ends() {
        let requests = serde_json::json!({"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}, "name": "c"});
        let value = |phase: &str| {
            serde_json::json!({
                "metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [requests, requests]},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
            })
        };
        let seen = pod(value("Running")).unwrap();
        assert_eq!((seen.cpus, seen.memory, seen.ready), (CpuCount(1000), 2 << 30, true));
        assert_eq!(pod(value("Succeeded")), None);
        let quantity = |text: &str| thousandths(&Quantity(text.into()));
        assert_eq!(quantity("1.5"), Some(1500));
        assert_eq!(quantity("2e3"), Some(2_000_000));
        assert_eq!([quantity("-1"), quantity("1Xi"), quantity("")], [None; 3]);
    }

    #[test]
    fn a_nodes_state_and_mark() {
        let node = |spec: serde_json::Value, ready: &str| {
            NodeSeen::of(
                &serde_json::from_value(serde_json::json!({
                    "metadata": {"name": "n"}, "spec": spec,
                    "status": {"conditions": [{"type": "Ready", "status": ready}], "capacity": {"cpu": "8", "memory": "16Gi"}},
                }))
                .unwrap(),
            )
        };
        assert_eq!(node(serde_json::json!({}), "True").state, HostState::Ready);
        assert_eq!(node(serde_json::json!({}), "True").cpus, CpuCount::whole(8));
        assert_eq!(node(serde_json::json!({}), "Unknown").state, HostState::Unreachable);
        assert_eq!(node(serde_json::json!({"unschedulable": true}), "True").state, HostState::Draining);
        let marked = node(serde_json::json!({"taints": [{"key": TAINT, "effect": "PreferNoSchedule"}]}), "True");
        assert_eq!((marked.state, marked.mark), (HostState::Ready, Contended::Contended));
    }
}
