//! Workloads come, change and go; so do their cgroups.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::Relaxed;

use quell_linux::cgroup::Tree;
use quell_model::{Nanos, Workload, WorkloadId};

use super::Scx;
use crate::ScxError;

/// A cgroup that was removed and made again, as a service's is when it starts anew, is found within this time.
const LOOK_FOR_CGROUPS: Nanos = Nanos::from_millis(100);

/// And no more often than that it takes one in this many of a CPU's time.
const LOOKS_SHARE: u64 = 50;

/// A workload in its slot.
pub(super) struct Attached {
    pub spec: Workload,
    /// The numbers of its cgroups.
    pub cgroups: Vec<u64>,
    pub run_time_before: u64,
    pub formed: u64,
}

impl Scx {
    /// It holds no CPU until one is granted to it.
    pub(super) fn enter(&mut self, id: WorkloadId, spec: Workload) -> Result<(), ScxError> {
        let cgroups = self.cgroups(&spec)?;
        if let Err(error) = self.grant.attach(id, &spec, &cgroups) {
            // It got no place, or half of one: then it is not a workload at all.
            let _ = self.grant.detach(id, &cgroups);
            return Err(error);
        }
        let state = self.grant.workload(id)?;
        let (run_time_before, formed) = (state.run_time.load(Relaxed), state.formed.load(Relaxed));
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, || None);
        }
        self.slots[id.index()] = Some(Box::new(Attached { spec, cgroups, run_time_before, formed }));
        Ok(())
    }

    pub(super) fn describe(&mut self, id: WorkloadId, workload: &Workload) -> Result<(), ScxError> {
        if let Some(attached) = self.slots.get_mut(id.index()).and_then(Option::as_mut) {
            self.grant.describe(id, workload)?;
            attached.spec = workload.clone();
        }
        self.find_cgroups(id, &Tree::at(&self.roots.cgroup))
    }

    /// Its threads are the system's from now on.
    pub(super) fn leave(&mut self, id: WorkloadId) -> Result<(), ScxError> {
        match self.slots.get_mut(id.index()).and_then(Option::take) {
            Some(attached) => self.grant.detach(id, &attached.cgroups),
            None => Ok(()),
        }
    }

    /// Is it among those that CPUs are granted to?
    pub(super) fn is_granted(&self, workload: &Workload) -> bool {
        self.options.granted.as_ref().is_none_or(|names| names.contains(&workload.name))
    }

    /// Now and then: the cgroups of all workloads.
    pub(super) fn look_around(&mut self) -> Result<(), ScxError> {
        let now = quell_linux::now();
        if now < self.cgroups_at {
            return Ok(());
        }
        let began = quell_linux::cpu_time();
        let tree = Tree::at(&self.roots.cgroup);
        let found = (0..self.slots.len() as u32).try_for_each(|slot| self.find_cgroups(WorkloadId(slot), &tree));
        let cost = quell_linux::cpu_time() - began;
        self.cgroups_at = now + LOOK_FOR_CGROUPS.max(Nanos(cost.0 * LOOKS_SHARE));
        found
    }

    fn find_cgroups(&mut self, id: WorkloadId, tree: &Tree) -> Result<(), ScxError> {
        let Some(Some(attached)) = self.slots.get(id.index()) else { return Ok(()) };
        let found = cgroups(&attached.spec, tree)?;
        if found == attached.cgroups {
            return Ok(());
        }
        self.grant.change_cgroups(id, &attached.cgroups, &found)?;
        if let Some(Some(attached)) = self.slots.get_mut(id.index()) {
            attached.cgroups = found;
        }
        Ok(())
    }

    /// The numbers of a workload's cgroups, as they are now.
    pub(super) fn cgroups(&self, spec: &Workload) -> Result<Vec<u64>, ScxError> {
        cgroups(spec, &Tree::at(&self.roots.cgroup))
    }
}

/// The kernel's number of a cgroup is its directory's inode.
fn cgroups(spec: &Workload, tree: &Tree) -> Result<Vec<u64>, ScxError> {
    let mut found = Vec::new();
    for selector in &spec.selectors {
        let Some(paths) = tree.named(selector)? else {
            let (workload, selector) = (spec.name.clone(), selector.to_string());
            return Err(ScxError::NoCgroup { workload, selector });
        };
        // One that is not there is for the stock host to refuse.
        let inodes = paths.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|directory| directory.ino());
        for inode in inodes {
            if !found.contains(&inode) {
                found.push(inode);
            }
        }
    }
    Ok(found)
}
