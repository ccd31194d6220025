//! The order in which CPU sets of cgroups change.
//!
//! At no moment is a cgroup's set outside its parent's, and none is ever empty. Where it can be, CPUs are taken away
//! before they are given, so that no CPU is in two sets in between.

use std::path::{Path, PathBuf};

use quell_model::CpuSet;

use crate::{LinuxError, cgroup};

/// One cgroup's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The cgroup.
    pub group: PathBuf,
    /// `cpuset.cpus` now; empty: the parent's.
    pub now: String,
    /// `cpuset.cpus` in the end; empty: the parent's.
    pub to: String,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The index of the change that it belongs to.
    pub change: usize,
    /// The text for `cpuset.cpus`.
    pub text: String,
}

/// A cgroup on its way.
struct Node {
    now: CpuSet,
    to: CpuSet,
    parent: Option<usize>,
    depth: usize,
}

/// The writes that lead from all sets to all wanted ones. `above` tells the CPUs that a cgroup's parents leave it.
///
/// # Errors
/// If a wanted set does not lie within its parent's.
pub(crate) fn order(
    changes: &[Change],
    above: &dyn Fn(&Path) -> Result<CpuSet, LinuxError>,
) -> Result<Vec<Step>, LinuxError> {
    let mut nodes = nodes(changes, above)?;
    let mut down: Vec<usize> = (0..nodes.len()).collect();
    down.sort_by_key(|&at| nodes[at].depth);
    let mut steps = Vec::new();
    // Take away what can be taken: children first, as far as something is left and no child needs it.
    for &at in down.iter().rev() {
        let rest = nodes[at].now.intersection(&nodes[at].to);
        if !rest.is_empty() && children_fit(&nodes, at, &rest) {
            step(&mut nodes, &mut steps, at, rest);
        }
    }
    // Give, parents first. Who has children that are still outside the new set keeps the old CPUs for now.
    for &at in &down {
        let to = nodes[at].to;
        let within = nodes[at].parent.is_none_or(|parent| to.is_subset(&nodes[parent].now));
        let next = if within && children_fit(&nodes, at, &to) { to } else { nodes[at].now.union(&to) };
        step(&mut nodes, &mut steps, at, next);
    }
    // Take the rest away, children first.
    for &at in down.iter().rev() {
        let to = nodes[at].to;
        step(&mut nodes, &mut steps, at, to);
    }
    finish(changes, &mut steps);
    Ok(steps)
}

/// The CPUs that the parents of a cgroup leave it: each set within its own parent's; an empty one, and one that has no
/// CPU of its parent's, counts as the parent's (as the kernel does).
pub(crate) fn usable_above(group: &Path, root: &Path, online: &CpuSet) -> Result<CpuSet, LinuxError> {
    let mut above: Vec<&Path> =
        group.ancestors().skip(1).take_while(|path| *path != root && path.starts_with(root)).collect();
    above.reverse();
    let mut usable = *online;
    for group in above {
        let own: CpuSet = cgroup::read_file(&group.join("cpuset.cpus"))?.unwrap_or_default().parse()?;
        let common = own.intersection(&usable);
        if !common.is_empty() {
            usable = common;
        }
    }
    Ok(usable)
}

fn nodes(changes: &[Change], above: &dyn Fn(&Path) -> Result<CpuSet, LinuxError>) -> Result<Vec<Node>, LinuxError> {
    let mut order: Vec<usize> = (0..changes.len()).collect();
    order.sort_by_key(|&at| changes[at].group.components().count());
    let mut nodes: Vec<Node> =
        changes.iter().map(|_| Node { now: CpuSet::EMPTY, to: CpuSet::EMPTY, parent: None, depth: 0 }).collect();
    for at in order {
        let change = &changes[at];
        let closest = (0..changes.len())
            .filter(|&other| other != at && change.group.starts_with(&changes[other].group))
            .max_by_key(|&other| nodes[other].depth);
        let (now_above, to_above) = match closest {
            Some(parent) => (nodes[parent].now, nodes[parent].to),
            None => {
                let above = above(&change.group)?;
                (above, above)
            }
        };
        let to = set(&change.to, &to_above)?;
        if !to.is_subset(&to_above) {
            let path = change.group.join("cpuset.cpus");
            let what = format!("{} cannot be {to}: its parent has only {to_above}", path.display());
            return Err(LinuxError::unsupported(what, "widen the parent's cpuset.cpus, or choose CPUs that it has"));
        }
        // A set that now lies outside its parent's has the effect of the part that does not.
        let now = set(&change.now, &now_above)?.intersection(&now_above);
        let now = if now.is_empty() { now_above } else { now };
        nodes[at] = Node { now, to, parent: closest, depth: change.group.components().count() };
    }
    Ok(nodes)
}

fn set(text: &str, otherwise: &CpuSet) -> Result<CpuSet, LinuxError> {
    let set: CpuSet = text.parse()?;
    Ok(if set.is_empty() { *otherwise } else { set })
}

fn children_fit(nodes: &[Node], at: usize, set: &CpuSet) -> bool {
    nodes.iter().all(|node| node.parent != Some(at) || node.now.is_subset(set))
}

fn step(nodes: &mut [Node], steps: &mut Vec<Step>, change: usize, set: CpuSet) {
    if nodes[change].now != set {
        nodes[change].now = set;
        steps.push(Step { change, text: set.to_string() });
    }
}

/// The last write of each cgroup gets the wanted text, which may be empty; one is added where the sets are equal and
/// only the texts differ.
fn finish(changes: &[Change], steps: &mut Vec<Step>) {
    for (at, change) in changes.iter().enumerate() {
        match steps.iter_mut().rfind(|step| step.change == at) {
            Some(last) => last.text.clone_from(&change.to),
            None if change.now != change.to => steps.push(Step { change: at, text: change.to.clone() }),
            None => {}
        }
    }
}
