//! The node's rules, one by one; `random` runs events in any order.

mod life;
mod machines;
mod random;
mod showing;
mod strictness;

use std::collections::BTreeSet;

use quell_model::{CpuSet, Nanos, Topology};

use super::*;
use crate::rules::Namespaces;

pub(super) fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

pub(super) fn rules(mode: Mode) -> Rules {
    Rules {
        mode,
        may_be_lc: Namespaces::All,
        may_be_strict: Namespaces::Named(BTreeSet::from(["shop".to_owned()])),
        reserved: cpus("0"),
        whole_cores: false,
    }
}

/// Cores of one thread; CPU 0 is the system's.
pub(super) fn node(cores: u32) -> Node {
    let topology = Topology::synthetic(1, 1, cores, 1);
    let online = topology.all();
    Node::new(rules(Mode::Enforce), topology, online)
}

pub(super) fn observer(cores: u32) -> Node {
    let mut node = node(cores);
    node.rules.mode = Mode::Observe;
    node
}

/// A burstable pod of namespace `shop`.
pub(super) fn pod(id: &str) -> Sandbox {
    Sandbox {
        id: id.into(),
        uid: format!("{id}-uid"),
        namespace: "shop".into(),
        name: id.into(),
        cgroup: format!("/kubepods/burstable/pod{id}-uid"),
        ..Sandbox::default()
    }
}

/// The same, with CPUs of its own.
pub(super) fn strict(id: &str) -> Sandbox {
    labelled(pod(id), "quell.dev/reservation", "strict")
}

pub(super) fn labelled(mut sandbox: Sandbox, label: &str, value: &str) -> Sandbox {
    sandbox.labels.insert(label.into(), value.into());
    sandbox
}

/// A container of this pod that asks for this many thousandths.
pub(super) fn container(sandbox: &Sandbox, id: &str, name: &str, milli: u64) -> Container {
    Container {
        id: id.into(),
        sandbox: sandbox.id.clone(),
        name: name.into(),
        cgroup: format!("{}/{id}", sandbox.cgroup),
        shares: (milli * 1024 / 1000).max(2),
        ..Container::default()
    }
}

/// Creates and starts one of these, id and name alike, and returns where it was created.
pub(super) fn run(node: &mut Node, sandbox: &Sandbox, id: &str, milli: u64) -> Result<String, String> {
    let created = node.create(Nanos::ZERO, sandbox, container(sandbox, id, id, milli));
    let cpus = created.map_err(|refused| refused.to_string())?;
    node.starts(id);
    Ok(cpus.map_or("unchanged".to_owned(), |cpus| cpus.to_string()))
}

/// The CPU set that this container should have.
pub(super) fn set(node: &Node, sandbox: &str, id: &str) -> Option<String> {
    node.wanted().get(&format!("kubepods/burstable/pod{sandbox}-uid/{id}/cpuset.cpus")).cloned()
}

/// The only pod's remarks, joined.
pub(super) fn remarks(node: &Node, pod: &str) -> String {
    node.pods().into_iter().find(|view| view.sandbox.name == pod).unwrap().remarks.join(" | ")
}
