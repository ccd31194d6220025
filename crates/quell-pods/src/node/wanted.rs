//! What the files of the pods' cgroups should say.

use std::collections::BTreeMap;

use quell_model::CpuSet;

use super::Node;
use super::tracked::{Stage, Tracked};
use crate::path::PodPath;
use crate::request::limit;

/// The CPUs that a partition may take from all others: of it, and of the cgroups above it.
pub const EXCLUSIVE: &str = "cpuset.cpus.exclusive";
/// Is a cgroup a partition?
pub const PARTITION: &str = "cpuset.cpus.partition";

/// Files below the cgroup root, and their text.
pub(super) fn files(node: &Node) -> BTreeMap<String, String> {
    let (mut files, mut exclusive) = (BTreeMap::new(), BTreeMap::<String, CpuSet>::new());
    if !node.acts() {
        return files;
    }
    let mut containers = node.by_sandbox();
    for (sandbox, its) in node.sandboxes.iter().map(|(id, sandbox)| (id, PodPath::of(sandbox))) {
        let Ok(pod) = its else { continue };
        let its = containers.remove(sandbox.as_str()).unwrap_or_default();
        let its: Vec<&Tracked> = its.into_iter().filter(|tracked| tracked.stage != Stage::Stopped).collect();
        let has_own =
            |tracked: &Tracked| node.reservations.get(&tracked.place()).is_some_and(|held| !held.cpus.is_empty());
        let own = node.reservations.cpus_of(sandbox);
        if node.partitions && !own.is_empty() {
            for above in ancestors(&pod.path) {
                let all = exclusive.entry(above).or_insert(CpuSet::EMPTY);
                *all = all.union(&own);
            }
            files.insert(format!("{}/{EXCLUSIVE}", pod.path), own.to_string());
            files.insert(format!("{}/{PARTITION}", pod.path), "root".to_owned());
        }
        let mut lifted = false;
        for tracked in its.iter().filter(|tracked| tracked.stage == Stage::Running) {
            let Ok(path) = pod.container(&tracked.container.cgroup) else { continue };
            if node.sets_cpus_in(sandbox) {
                files.insert(format!("{path}/cpuset.cpus"), node.cpus_at(&tracked.place()).to_string());
            }
            // A quota beside whole CPUs takes time that no other container can use.
            if has_own(tracked) && limit(&tracked.container).is_some() {
                files.insert(format!("{path}/cpu.max"), "max".to_owned());
                lifted = true;
            }
        }
        let mut limited = its.iter().filter(|tracked| limit(&tracked.container).is_some());
        if lifted && limited.all(|tracked| has_own(tracked)) {
            files.insert(format!("{}/cpu.max", pod.path), "max".to_owned());
        }
    }
    files.extend(exclusive.into_iter().map(|(above, cpus)| (format!("{above}/{EXCLUSIVE}"), cpus.to_string())));
    files
}

/// The cgroups above this one, from the top.
fn ancestors(path: &str) -> impl Iterator<Item = String> {
    path.match_indices('/').map(|(end, _)| path[..end].to_owned())
}
