//! Pods and containers as the runtime describes them.

use std::collections::BTreeMap;

/// A pod, by its sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// The runtime's id.
    pub id: String,
    /// The pod's uid in Kubernetes.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The cgroup of the pod, as the runtime says it (`cgroup_parent`).
    pub cgroup: String,
    /// CPU shares of all its containers together, 1024 a CPU; 0: the runtime does not say it.
    pub shares: u64,
}

impl Sandbox {
    /// `namespace/name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Does the node depend on it? Such a pod is never best-effort. (Priority classes do not reach the runtime.)
    pub(crate) fn is_of_the_system(&self) -> bool {
        let source = self.annotations.get("kubernetes.io/config.source");
        self.namespace == "kube-system" || source.is_some_and(|source| source != "api")
    }
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// The runtime's id.
    pub id: String,
    /// The id of its pod's sandbox.
    pub sandbox: String,
    /// Its name in the pod.
    pub name: String,
    /// Its cgroup, as the runtime says it (`linux.cgroups_path`).
    pub cgroup: String,
    /// CPU shares, 1024 a CPU; 0 or 2: none asked for.
    pub shares: u64,
    /// CPU time a period, in µs; 0 or less: no limit.
    pub quota: i64,
    /// The quota's period in µs; 0: the default.
    pub period: u64,
    /// The CPU list that the runtime knows for it; may be empty.
    pub cpus: String,
    /// Does it run?
    pub is_running: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(namespace: &str, source: Option<&str>) -> Sandbox {
        let annotations = source.map(|source| ("kubernetes.io/config.source".to_owned(), source.to_owned()));
        Sandbox { namespace: namespace.into(), annotations: annotations.into_iter().collect(), ..Sandbox::default() }
    }

    #[test]
    fn static_pods_and_those_of_kube_system_are_of_the_system() {
        assert!(from("kube-system", None).is_of_the_system());
        assert!(from("default", Some("file")).is_of_the_system());
        assert!(!from("default", Some("api")).is_of_the_system());
        assert!(!from("default", None).is_of_the_system());
    }
}
