//! The order in which CPU sets of cgroups change.
//!
//! At no moment is a cgroup's set outside its parent's, and none is ever empty. Where it can be, CPUs are taken away
//! before they are given, so that no CPU is in two sets in between.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use quell_model::{CpuSet, foreign};

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
    children: Vec<usize>,
    depth: usize,
}

/// The writes that lead from all sets to all wanted ones. `above` gives the CPUs that a cgroup's parents leave it.
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
    // Take CPUs away where possible: children first, as long as one CPU is left and no child needs them.
    for &at in down.iter().rev() {
        let rest = nodes[at].now.intersection(&nodes[at].to);
        if !rest.is_empty() && children_fit(&nodes, at, &rest) {
            step(&mut nodes, &mut steps, at, rest);
        }
    }
    // Give, parents first. A cgroup with children that are still outside the new set keeps the old CPUs for now.
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
    let by_path: HashMap<&Path, usize> = changes.iter().enumerate().map(|(at, change)| (&*change.group, at)).collect();
    let mut nodes: Vec<Node> = changes
        .iter()
        .map(|change| {
            let depth = change.group.components().count();
            let parent = change.group.ancestors().skip(1).find_map(|above| by_path.get(above).copied());
            Node { now: CpuSet::EMPTY, to: CpuSet::EMPTY, parent, children: Vec::new(), depth }
        })
        .collect();
    let mut down: Vec<usize> = (0..nodes.len()).collect();
    down.sort_by_key(|&at| nodes[at].depth);
    for at in down {
        let change = &changes[at];
        let closest = nodes[at].parent;
        if let Some(parent) = closest {
            nodes[parent].children.push(at);
        }
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
            let what = format!("{} cannot be {to}: its parent has only {to_above}", foreign::path(&path));
            return Err(LinuxError::unsupported(what, "widen the parent's cpuset.cpus, or choose CPUs that it has"));
        }
        // A set that now lies outside its parent's has the effect of the part that does not.
        let now = set(&change.now, &now_above)?.intersection(&now_above);
        let now = if now.is_empty() { now_above } else { now };
        (nodes[at].now, nodes[at].to) = (now, to);
    }
    Ok(nodes)
}

fn set(text: &str, otherwise: &CpuSet) -> Result<CpuSet, LinuxError> {
    let set: CpuSet = text.parse()?;
    Ok(if set.is_empty() { *otherwise } else { set })
}

fn children_fit(nodes: &[Node], at: usize, set: &CpuSet) -> bool {
    nodes[at].children.iter().all(|&child| nodes[child].now.is_subset(set))
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
    let mut last: Vec<Option<usize>> = vec![None; changes.len()];
    for (index, step) in steps.iter().enumerate() {
        last[step.change] = Some(index);
    }
    for (at, change) in changes.iter().enumerate() {
        match last[at] {
            Some(last) => steps[last].text.clone_from(&change.to),
            None if change.now != change.to => steps.push(Step { change: at, text: change.to.clone() }),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CPUS: usize = 6;

    /// A random hierarchy: each cgroup has a parent among those before it (or the root), and a set within its parent's.
    #[derive(Clone, Debug)]
    struct Hierarchy {
        parents: Vec<Option<usize>>,
        now: Vec<CpuSet>,
        to: Vec<CpuSet>,
    }

    fn hierarchy() -> impl Strategy<Value = Hierarchy> {
        let group = (any::<proptest::sample::Index>(), 1u64..1 << CPUS, 1u64..1 << CPUS);
        proptest::collection::vec(group, 1..9).prop_map(|groups| {
            let mut made = Hierarchy { parents: vec![], now: vec![], to: vec![] };
            for (index, now, to) in groups {
                let parent = index.index(made.parents.len() + 1).checked_sub(1);
                let within = |mask: u64, sets: &[CpuSet]| {
                    let set: CpuSet =
                        (0..CPUS as u32).filter(|cpu| mask >> cpu & 1 == 1).map(quell_model::CpuId).collect();
                    let above = parent.map_or(CpuSet::first(CPUS), |parent| sets[parent]);
                    let common = set.intersection(&above);
                    if common.is_empty() { above } else { common }
                };
                let (now, to) = (within(now, &made.now), within(to, &made.to));
                made.parents.push(parent);
                made.now.push(now);
                made.to.push(to);
            }
            made
        })
    }

    fn changes(hierarchy: &Hierarchy) -> Vec<Change> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for (at, parent) in hierarchy.parents.iter().enumerate() {
            let above = parent.map_or(PathBuf::from("/root"), |parent| paths[parent].clone());
            paths.push(above.join(format!("g{at}")));
        }
        let sets = hierarchy.now.iter().zip(&hierarchy.to);
        paths
            .into_iter()
            .zip(sets)
            .map(|(group, (now, to))| Change { group, now: now.to_string(), to: to.to_string() })
            .collect()
    }

    fn everything(_: &Path) -> Result<CpuSet, LinuxError> {
        Ok(CpuSet::first(CPUS))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// At no moment is a child's set outside its parent's or a set empty; in the end each is the wanted one.
        #[test]
        fn every_moment_in_between_is_valid(hierarchy in hierarchy()) {
            let steps = order(&changes(&hierarchy), &everything).unwrap();
            let mut sets = hierarchy.now.clone();
            for step in &steps {
                sets[step.change] = step.text.parse().unwrap();
                for (at, parent) in hierarchy.parents.iter().enumerate() {
                    prop_assert!(!sets[at].is_empty());
                    prop_assert!(parent.is_none_or(|parent| sets[at].is_subset(&sets[parent])), "{sets:?} after {step:?}");
                }
            }
            prop_assert_eq!(sets, hierarchy.to);
            prop_assert!(steps.len() <= 3 * hierarchy.parents.len());
        }

        /// Among siblings whose sets were disjoint and will be, no CPU is in two sets in between, except where a set
        /// has to move altogether and cannot be empty meanwhile.
        #[test]
        fn cpus_are_taken_before_they_are_given(others in proptest::collection::vec((0usize..3, 0usize..3), CPUS - 3)) {
            // Each keeps one CPU.
            let owners: Vec<(usize, usize)> = [(0, 0), (1, 1), (2, 2)].into_iter().chain(others).collect();
            let set = |of: usize, end: bool| -> CpuSet {
                let mine = |&(_, &(now, to)): &(usize, &(usize, usize))| if end { to == of } else { now == of };
                owners.iter().enumerate().filter(mine).map(|(cpu, _)| quell_model::CpuId(cpu as u32)).collect()
            };
            let hierarchy = Hierarchy {
                parents: vec![None; 3],
                now: (0..3).map(|of| set(of, false)).collect(),
                to: (0..3).map(|of| set(of, true)).collect(),
            };
            let mut sets = hierarchy.now.clone();
            for step in order(&changes(&hierarchy), &everything).unwrap() {
                sets[step.change] = step.text.parse().unwrap();
                prop_assert!((0..3).all(|a| (0..a).all(|b| sets[a].is_disjoint(&sets[b]))));
            }
            prop_assert_eq!(sets, hierarchy.to);
        }
    }

    #[test]
    fn a_set_outside_the_parents_is_refused() {
        let change = |group: &str, now: &str, to: &str| Change { group: group.into(), now: now.into(), to: to.into() };
        let error = order(&[change("/root/a", "", "0-7")], &everything).unwrap_err().to_string();
        assert!(error.contains("/root/a/cpuset.cpus") && error.contains("widen"), "{error}");
        let both = [change("/root/a", "0-3", "0-1"), change("/root/a/b", "2", "2")];
        assert!(order(&both, &everything).is_err());
    }

    #[test]
    fn an_empty_text_means_the_parents_set() {
        let change = Change { group: "/root/a".into(), now: "0-5".into(), to: String::new() };
        assert_eq!(
            order(std::slice::from_ref(&change), &everything).unwrap(),
            [Step { change: 0, text: String::new() }]
        );
    }
}
