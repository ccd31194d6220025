//! The class of a pod: by Kubernetes' quality of service, or by its owner's label.

use std::fmt;

use quell_model::CpuCount;

use crate::pod::Sandbox;
use crate::qos::Qos;
use crate::rules::Rules;

/// The label that decides.
const LABEL: &str = "quell.dev/class";

/// What a pod is to the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Its latency counts.
    LatencyCritical,
    /// It gets what is left.
    BestEffort,
    /// Measured, and left alone.
    Unmanaged,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::LatencyCritical => "lc",
            Class::BestEffort => "be",
            Class::Unmanaged => "none",
        })
    }
}

/// The class that a pod's label asks for, if it is one.
pub(crate) fn labelled(sandbox: &Sandbox) -> Option<Class> {
    match sandbox.labels.get(LABEL)?.as_str() {
        "lc" => Some(Class::LatencyCritical),
        "be" => Some(Class::BestEffort),
        "none" => Some(Class::Unmanaged),
        _ => None,
    }
}

/// A pod's class, and why it is not the one asked for. `requested`: none while it has no containers.
pub(crate) fn classify(
    sandbox: &Sandbox,
    qos: Qos,
    requested: Option<CpuCount>,
    rules: &Rules,
) -> (Class, Option<String>) {
    let label = sandbox.labels.get(LABEL);
    let asked = match (label, labelled(sandbox)) {
        (Some(value), None) => {
            let remark = format!("{LABEL}={value} is unknown: it is not managed; use lc, be or none");
            return (Class::Unmanaged, Some(remark));
        }
        (_, Some(class)) => class,
        (None, None) => match qos {
            Qos::Guaranteed => Class::LatencyCritical,
            Qos::Burstable => Class::Unmanaged,
            Qos::BestEffort => Class::BestEffort,
        },
    };
    let unless_default = |remark: String| (Class::Unmanaged, label.is_some().then_some(remark));
    match asked {
        Class::BestEffort if sandbox.is_of_the_system() => {
            unless_default(format!("{LABEL}=be: the node depends on this pod, it is not managed; remove the label"))
        }
        Class::LatencyCritical if !rules.may_be_lc.contain(&sandbox.namespace) => unless_default(format!(
            "{LABEL}=lc: pods of namespace {} may not be latency-critical; ask the node's administrator to name it",
            sandbox.namespace
        )),
        Class::LatencyCritical => match requested {
            Some(CpuCount::ZERO) => {
                let remark = format!("{LABEL}=lc: without a CPU request it is not managed; request CPUs");
                (Class::Unmanaged, Some(remark))
            }
            Some(_) => (Class::LatencyCritical, None),
            None => (Class::Unmanaged, None),
        },
        other => (other, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Mode, Namespaces};
    use quell_model::CpuSet;

    fn rules() -> Rules {
        let shop = Namespaces::Named(["shop".to_owned()].into());
        Rules {
            mode: Mode::Enforce,
            may_be_lc: shop.clone(),
            may_be_strict: shop,
            reserved: CpuSet::EMPTY,
            whole_cores: false,
        }
    }

    fn class(namespace: &str, label: Option<&str>, qos: Qos, requested: u32) -> (Class, String) {
        let labels = label.map(|value| (LABEL.to_owned(), value.to_owned())).into_iter().collect();
        let sandbox = Sandbox { namespace: namespace.into(), labels, ..Sandbox::default() };
        let (class, remark) = classify(&sandbox, qos, Some(CpuCount(requested)), &rules());
        (class, remark.unwrap_or_default())
    }

    #[test]
    fn without_a_label_kubernetes_decides() {
        let none = String::new();
        assert_eq!(class("shop", None, Qos::Guaranteed, 1000), (Class::LatencyCritical, none.clone()));
        assert_eq!(class("shop", None, Qos::Burstable, 1000), (Class::Unmanaged, none.clone()));
        assert_eq!(class("other", None, Qos::BestEffort, 0), (Class::BestEffort, none.clone()));
        assert_eq!(class("other", None, Qos::Guaranteed, 1000), (Class::Unmanaged, none), "may not, and did not ask");
    }

    #[test]
    fn a_label_decides_otherwise() {
        assert_eq!(class("shop", Some("lc"), Qos::Burstable, 100).0, Class::LatencyCritical);
        assert_eq!(class("other", Some("be"), Qos::Guaranteed, 1000).0, Class::BestEffort);
        assert_eq!(class("shop", Some("none"), Qos::Guaranteed, 1000).0, Class::Unmanaged);
    }

    #[test]
    fn what_may_not_be_is_unmanaged_and_says_why() {
        let refused = |namespace, label, requested, why: &str| {
            let (class, remark) = class(namespace, Some(label), Qos::Burstable, requested);
            assert_eq!(class, Class::Unmanaged);
            assert!(remark.contains(why) && remark.contains("; "), "{remark}");
        };
        refused("other", "lc", 1000, "namespace other may not");
        refused("shop", "lc", 0, "without a CPU request");
        refused("kube-system", "be", 0, "the node depends on this pod");
        refused("shop", "LC", 1000, "unknown");
    }

    #[test]
    fn the_systems_pods_are_never_best_effort() {
        assert_eq!(class("kube-system", None, Qos::BestEffort, 0), (Class::Unmanaged, String::new()));
    }

    #[test]
    fn a_pod_without_containers_is_not_blamed_for_its_request() {
        let sandbox = Sandbox { namespace: "shop".into(), ..Sandbox::default() };
        assert_eq!(classify(&sandbox, Qos::Guaranteed, None, &rules()), (Class::Unmanaged, None));
    }
}
