//! What the node's administrator allows.

use std::collections::BTreeSet;

use quell_model::CpuSet;

/// Whether decisions are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Decides and shows; refuses nothing, wants nothing.
    #[default]
    Observe,
    /// Decides and acts.
    Enforce,
}

/// Namespaces of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// Every one.
    All,
    /// These alone.
    Named(BTreeSet<String>),
}

impl Namespaces {
    /// Is this namespace one of them?
    #[must_use]
    pub fn contain(&self, namespace: &str) -> bool {
        match self {
            Namespaces::All => true,
            Namespaces::Named(names) => names.contains(namespace),
        }
    }
}

/// What pods of a node may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether decisions are carried out.
    pub mode: Mode,
    /// The namespaces whose pods may be latency-critical.
    pub may_be_lc: Namespaces,
    /// The namespaces whose pods may have CPUs of their own.
    pub may_be_strict: Namespaces,
    /// CPUs of the system's and the kubelet's daemons: always shared, never given away (rkube-socc21 §5.2).
    pub reserved: CpuSet,
    /// A request of *n* CPUs reserves *n* whole cores, with all of their hardware threads: two busy threads of one pod
    /// then never share a core, at the price of the siblings.
    pub whole_cores: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_namespaces_are_those_alone() {
        let named = Namespaces::Named(["shop".to_owned()].into());
        assert!(named.contain("shop") && !named.contain("shop2") && !named.contain(""));
        assert!(Namespaces::All.contain("anything"));
    }
}
