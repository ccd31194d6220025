//! A group's members and CPUs: one group a socket, "one foreground workload in the workload group" (snu2020 §3.4).

use quell_model::{CpuSet, View, WorkloadId};
use serde::{Deserialize, Serialize};

/// One group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Its foreground.
    pub foreground: WorkloadId,
    /// Its background.
    pub background: Vec<WorkloadId>,
    /// The CPUs of its sockets; None: all of the pool.
    pub sockets: Option<CpuSet>,
}

impl Place {
    /// The group's CPUs now.
    #[must_use]
    pub fn cpus(&self, view: &View) -> CpuSet {
        self.sockets.map_or(view.pool(), |sockets| view.pool().intersection(&sockets))
    }

    /// The foreground and the background.
    pub fn everyone<'a>(&'a self, view: &'a View) -> impl Iterator<Item = WorkloadId> + 'a {
        let is_member = |id: &WorkloadId| *id == self.foreground || self.background.contains(id);
        view.owned().map(|(id, _)| id).filter(is_member)
    }
}

/// The groups of a view: with one foreground all CPUs are one group; with more each socket is one, as far as there are
/// sockets and CPUs. Background stays in its group as long as that is there; new background goes to the group with the
/// least.
#[must_use]
pub(super) fn groups(view: &View, before: &[Place]) -> Vec<Place> {
    let background = || view.owned().filter(|(_, spec)| !spec.is_lc()).map(|(id, _)| id);
    if background().next().is_none() {
        return Vec::new();
    }
    let is_critical = |id: WorkloadId| view.workload(id).is_some_and(|spec| spec.is_lc());
    let pool = view.pool();
    let sockets: Vec<CpuSet> =
        view.topology.sockets().iter().copied().filter(|socket| socket.intersection(&pool).len() >= 2).collect();
    let mut foregrounds: Vec<WorkloadId> =
        before.iter().map(|place| place.foreground).filter(|&id| is_critical(id)).collect();
    for (id, _) in view.owned().filter(|(_, spec)| spec.is_lc()) {
        if !foregrounds.contains(&id) {
            foregrounds.push(id);
        }
    }
    foregrounds.truncate(sockets.len().max(1));
    let several = foregrounds.len() > 1;
    let mut places: Vec<Place> = foregrounds
        .iter()
        .enumerate()
        .map(|(at, &foreground)| {
            let own = sockets.iter().skip(at).step_by(foregrounds.len());
            let sockets = several.then(|| own.fold(CpuSet::EMPTY, |all, socket| all.union(socket)));
            Place { foreground, background: Vec::new(), sockets }
        })
        .collect();
    for id in background() {
        let stays = before.iter().find(|place| place.background.contains(&id)).map(|place| place.foreground);
        let stays = places.iter().position(|place| Some(place.foreground) == stays);
        let fewest = || (0..places.len()).min_by_key(|&at| places[at].background.len());
        if let Some(at) = stays.or_else(fewest) {
            places[at].background.push(id);
        }
    }
    places
}
