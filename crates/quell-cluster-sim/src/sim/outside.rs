//! A cluster whose workloads something else places: it says where they are, and they are there.

use quell_model::WorkloadId;
use quell_model::cluster::HostId;

use super::work::Kind;
use super::{Cluster, machine};

impl Cluster {
    /// A workload's kind, and the number of its life in its place; None: there is none.
    pub(crate) fn life(&self, id: WorkloadId) -> Option<(&Kind, u32)> {
        let work = self.works.get(id.index()).filter(|work| work.present)?;
        Some((self.kinds.of(work), work.life))
    }

    /// The host of a workload.
    pub(crate) fn host_of(&self, id: WorkloadId) -> Option<HostId> {
        self.works.get(id.index()).filter(|work| work.present)?.host
    }

    /// The workload is on this host from now on, or on none. False: there is no room for it.
    pub(crate) fn is_on(&mut self, id: WorkloadId, host: Option<HostId>) -> bool {
        let before = self.host_of(id);
        if before == host || self.life(id).is_none() {
            return true;
        }
        if let Some(before) = before {
            self.touch(before);
            self.claim(before, id, false);
            self.hosts[before.index()].remove(id);
            let work = &mut self.works[id.index()];
            (work.host, work.pending, work.backlog) = (None, Some(self.clock.now()), 0.0);
        }
        let fits = host.is_none_or(|host| host.index() < self.hosts.len() && self.room(host, id));
        if let Some(host) = host.filter(|_| fits) {
            self.put(id, host);
        }
        self.rebalance();
        fits
    }

    /// Its hosts: thousandths of CPUs and bytes that workloads may claim.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (HostId, u32, u64)> + '_ {
        self.hosts.iter().enumerate().map(|(at, host)| (machine::host(at), host.claimable, host.memory))
    }
}
