//! Common parts of the cluster policies: the round's own view of room and contention, and workloads by host.

use quell_model::cluster::{ClusterView, HostId, HostState, Measure};
use quell_model::{CpuCount, WorkloadId};

/// The cluster as it will be after the decisions of this round: without it all workloads of a round run to one host.
/// Its memory is kept from round to round; its content is made anew.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    cpus: Vec<CpuCount>,
    memory: Vec<u64>,
    /// By each measure, in their order.
    contention: Vec<[f64; Measure::ALL.len()]>,
    /// CPUs in use by services.
    services: Vec<f64>,
    arrivals: Vec<u32>,
    departures: Vec<u32>,
    /// Workloads in the order of their hosts, and each host's first.
    by_host: Vec<WorkloadId>,
    first: Vec<u32>,
}

impl Round {
    /// The cluster as it is.
    pub fn begin(&mut self, view: &ClusterView) {
        let (hosts, workloads) = (&view.hosts, &view.workloads);
        self.cpus.clone_from(&hosts.claimed_cpus);
        self.memory.clone_from(&hosts.claimed_memory);
        self.contention.clear();
        // A host without a usable report is the last choice.
        let of = |at: usize| {
            let by = |measure| view.contention(HostId(at as u32), measure).unwrap_or(f64::INFINITY);
            Measure::ALL.map(by)
        };
        self.contention.extend((0..hosts.len()).map(of));
        for counts in [&mut self.arrivals, &mut self.departures] {
            counts.clear();
            counts.resize(hosts.len(), 0);
        }
        self.services.clear();
        self.services.resize(hosts.len(), 0.0);
        self.first.clear();
        self.first.resize(hosts.len() + 1, 0);
        let host = |at: usize| if workloads.present[at] { workloads.host[at] } else { None };
        for (at, host) in (0..workloads.len()).filter_map(|at| Some((at, host(at)?))) {
            self.first[host.index() + 1] += 1;
            self.services[host.index()] += service(view, WorkloadId(at as u32));
        }
        for at in 0..hosts.len() {
            self.first[at + 1] += self.first[at];
        }
        self.by_host.clear();
        make_room(&mut self.by_host, view);
        self.by_host.resize(self.first[hosts.len()] as usize, WorkloadId(0));
        for at in 0..workloads.len() {
            if let Some(host) = host(at) {
                let next = &mut self.first[host.index()];
                self.by_host[*next as usize] = WorkloadId(at as u32);
                *next += 1;
            }
        }
        // Each first is now the end of its host, which is the next one's first.
        for at in (1..=hosts.len()).rev() {
            self.first[at] = self.first[at - 1];
        }
        self.first[0] = 0;
    }

    /// The workloads of a host, by number.
    #[must_use]
    pub fn on(&self, host: HostId) -> &[WorkloadId] {
        &self.by_host[self.first[host.index()] as usize..self.first[host.index() + 1] as usize]
    }

    /// Contention of a host by this measure, its arrivals and departures of this round included; infinite: not known.
    #[must_use]
    pub fn contention(&self, host: HostId, by: Measure) -> f64 {
        self.contention[host.index()][by.index()]
    }

    /// Workloads that this round brings to a host.
    #[must_use]
    pub fn arrivals(&self, host: HostId) -> u32 {
        self.arrivals[host.index()]
    }

    /// Workloads that this round takes from a host.
    #[must_use]
    pub fn departures(&self, host: HostId) -> u32 {
        self.departures[host.index()]
    }

    /// Does the workload fit on this host?
    #[must_use]
    pub fn fits(&self, view: &ClusterView, host: HostId, workload: WorkloadId) -> bool {
        let (at, of) = (host.index(), workload.index());
        view.hosts.state[at] == HostState::Ready
            && self.cpus[at].0.saturating_add(view.workloads.cpus[of].0) <= view.hosts.cpus[at].0
            && self.memory[at].saturating_add(view.workloads.memory[of]) <= view.hosts.memory[at]
    }

    /// Thousandths of CPUs and bytes of memory that may still be claimed.
    #[must_use]
    pub fn left(&self, view: &ClusterView, host: HostId) -> (u64, u64) {
        let at = host.index();
        let cpus = view.hosts.cpus[at].0.saturating_sub(self.cpus[at].0);
        (u64::from(cpus), view.hosts.memory[at].saturating_sub(self.memory[at]))
    }

    /// The workload comes to this host in this round, with its intensity.
    pub fn arrives(&mut self, view: &ClusterView, host: HostId, workload: WorkloadId) {
        let (at, of) = (host.index(), workload.index());
        self.cpus[at].0 += view.workloads.cpus[of].0;
        self.memory[at] += view.workloads.memory[of];
        for by in Measure::ALL {
            self.contention[at][by.index()] += view.intensity(workload, by).unwrap_or(0.0);
        }
        self.services[at] += service(view, workload);
        self.arrivals[at] += 1;
    }

    /// CPUs that services use on a host, this one included.
    #[must_use]
    pub fn services_with(&self, view: &ClusterView, host: HostId, workload: WorkloadId) -> f64 {
        self.services[host.index()] + service(view, workload)
    }

    /// The workload leaves this host in this round; its room is kept until it has left.
    pub fn leaves(&mut self, view: &ClusterView, host: HostId, workload: WorkloadId) {
        for by in Measure::ALL {
            self.contention[host.index()][by.index()] -= view.intensity(workload, by).unwrap_or(0.0);
        }
        self.departures[host.index()] += 1;
    }

    /// Hosts of a layer on which the workload fits.
    pub fn choices<'a>(&'a self, view: &'a ClusterView, workload: WorkloadId) -> impl Iterator<Item = HostId> + 'a {
        view.hosts.ids().filter(move |&host| owns(view, host) && self.fits(view, host, workload))
    }
}

/// CPUs that the workload uses if it is a service.
fn service(view: &ClusterView, workload: WorkloadId) -> f64 {
    let at = workload.index();
    if view.workloads.class[at].is_lc() { view.workloads.used_cpus[at].usable().unwrap_or(0.0) } else { 0.0 }
}

/// Gives a list room for one entry a workload, and for more workloads to come: it grows only when the cluster has more of them
/// than ever.
pub fn make_room<T>(list: &mut Vec<T>, view: &ClusterView) {
    if list.capacity() < view.workloads.len() {
        list.reserve_exact(view.workloads.len().next_power_of_two() - list.len());
    }
}

/// May the stepping layer use this host?
#[must_use]
pub fn owns(view: &ClusterView, host: HostId) -> bool {
    view.scope.hosts.as_ref().is_none_or(|hosts| hosts.contains(&host))
}

/// May the stepping layer decide about this workload?
#[must_use]
pub fn decides(view: &ClusterView, workload: WorkloadId) -> bool {
    view.scope.workloads.as_ref().is_none_or(|own| own.contains(&workload))
}

/// The layer's workloads that wait for a place, longest first, then by number.
pub fn pending(view: &ClusterView, into: &mut Vec<WorkloadId>) {
    let workloads = &view.workloads;
    let waits = |id: &WorkloadId| {
        workloads.host[id.index()].is_none() && workloads.pending_since[id.index()].is_some() && decides(view, *id)
    };
    into.clear();
    make_room(into, view);
    into.extend(workloads.ids().filter(waits));
    into.sort_unstable_by_key(|id| (workloads.pending_since[id.index()], *id));
}
