//! What nodes without anything on them report: a simulated cluster whose workloads are placed by a real scheduler. Pure.

use std::collections::BTreeMap;

use quell_cluster::contention::{Heavy, Reading, Report, Service};
use quell_model::cluster::{ClusterEvent, ClusterView, HostId, Measure, Movable};
use quell_model::{Host, Nanos, Wake, WorkloadId};

use crate::ClusterError;
use crate::scenario::Scenario;
use crate::sim::{Cluster, Count};

/// A workload that is to be a set of one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name, which no other ever has: its kind, its place and its life there.
    pub name: String,
    /// Latency-critical?
    pub critical: bool,
    /// May its pod be evicted?
    pub movable: bool,
    /// CPUs requested.
    pub cpus: u32,
    /// Bytes requested.
    pub memory: u64,
}

/// A workload that came or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It came.
    Came(Wanted),
    /// The one of this name ended.
    Ended(String),
}

/// The cluster behind the nodes.
#[derive(Clone, Debug)]
pub struct Fake {
    cluster: Cluster,
    view: ClusterView,
    by_name: BTreeMap<String, WorkloadId>,
    /// Workloads that lost their place without coming to their end.
    lost: u32,
}

impl Fake {
    /// A scenario whose workloads have no places yet. Hosts and reports do not fail: the nodes are Kubernetes' now.
    ///
    /// # Errors
    /// As [`Cluster::new`].
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Fake, ClusterError> {
        let mut scenario = scenario.clone();
        scenario.fails = Default::default();
        for group in &mut scenario.workloads {
            group.hosts.clear();
            group.spread = false;
        }
        let cluster = Cluster::new(&scenario, seed)?;
        Ok(Fake { cluster, view: ClusterView::default(), by_name: BTreeMap::new(), lost: 0 })
    }

    /// Time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.cluster.now()
    }

    /// Is the scenario over?
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.cluster.is_over()
    }

    /// Each host, thousandths of CPUs and bytes that pods may request there.
    pub fn sizes(&self) -> impl Iterator<Item = (HostId, u32, u64)> + '_ {
        self.cluster.sizes()
    }

    /// Lets time pass; returns what came and ended.
    pub fn pass(&mut self, until: Nanos) -> Vec<Change> {
        let (mut events, mut changes) = (Vec::new(), Vec::new());
        loop {
            let Ok(()) = self.cluster.observe((), &mut self.view, &mut events);
            for event in events.drain(..) {
                match event {
                    ClusterEvent::Wants(id) => changes.extend(self.come(id)),
                    ClusterEvent::Ended(id) => {
                        let name = self.by_name.iter().find(|(_, its)| **its == id).map(|(name, _)| name.clone());
                        changes.extend(name.map(|name| {
                            self.by_name.remove(&name);
                            Change::Ended(name)
                        }));
                    }
                    _ => {}
                }
            }
            if self.now() >= until || self.is_over() {
                return changes;
            }
            let Ok(()) = self.cluster.wait(Wake::At(until));
        }
    }

    fn come(&mut self, id: WorkloadId) -> Option<Change> {
        let (kind, life) = self.cluster.life(id)?;
        let wanted = Wanted {
            name: format!("{}-{}-{life}", kind.name, id.0),
            critical: kind.class.is_lc(),
            movable: kind.movable != Movable::Never,
            cpus: kind.vcpus,
            memory: kind.memory,
        };
        self.by_name.insert(wanted.name.clone(), id);
        Some(Change::Came(wanted))
    }

    /// The pods of these workloads run on these hosts, those of all others on none.
    pub fn placed(&mut self, hosts: &BTreeMap<String, HostId>) {
        // What leaves makes room for what comes.
        for (name, id) in &self.by_name {
            let (is, was) = (hosts.get(name), self.cluster.host_of(*id));
            if was.is_some() && was != is.copied() {
                self.lost += 1;
                self.cluster.is_on(*id, None);
            }
        }
        for (name, id) in &self.by_name {
            if let Some(host) = hosts.get(name) {
                // Without room it waits on: the next time there may be.
                self.cluster.is_on(*id, Some(*host));
            }
        }
    }

    /// Workloads that wait for a place.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.by_name.values().filter(|id| self.cluster.host_of(**id).is_none()).count()
    }

    /// The reports of all hosts, of the pods with these names by workload.
    #[must_use]
    pub fn reports(&self, at_ms: u64, node: impl Fn(HostId) -> String, pods: &BTreeMap<String, String>) -> Vec<Report> {
        let mut reports: Vec<Report> = self.view.hosts.ids().map(|host| self.report(host, at_ms, node(host))).collect();
        for (name, id) in &self.by_name {
            let (Some(pod), Some(host)) = (pods.get(name), self.cluster.host_of(*id)) else { continue };
            let Some(report) = reports.get_mut(host.index()) else { continue };
            let (works, at) = (&self.view.workloads, id.index());
            if works.host[at] != Some(host) {
                continue;
            }
            let intensity = works.intensity[at].usable();
            if intensity.is_some_and(|value| value > 0.0) {
                report.heaviest.push(Heavy { pod: pod.clone(), intensity, share: None });
            }
            if works.class[at].is_lc() {
                report.services.push(Service {
                    pod: pod.clone(),
                    measured: works.latency[at].usable(),
                    predicted: works.predicted[at].usable(),
                    bound: works.slo[at].map(|slo| slo.bound),
                });
            }
        }
        for report in &mut reports {
            let heavy = |it: &Heavy| it.intensity.unwrap_or(0.0);
            report.heaviest.sort_by(|a, b| heavy(b).total_cmp(&heavy(a)));
            report.services.sort_by_key(|service| std::cmp::Reverse(service.strain()));
        }
        reports
    }

    fn report(&self, host: HostId, at_ms: u64, node: String) -> Report {
        let sample = &self.view.hosts.contention[host.index()];
        let by = sample.usable().map(|value| Reading { measure: Measure::Counters, value, exact: true });
        Report { node, at_ms, window: sample.window, by: by.into_iter().collect(), ..Report::default() }
    }

    /// The counts up to now, and how often a workload lost its place.
    #[must_use]
    pub fn count(&mut self) -> (Count, u32) {
        (self.cluster.count(), self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
        about = "two hosts"
        lasts = "10min"
        [[host]]
        count = 2
        machine = "sdc"
        cores = 8
        memory-gib = 64
        link-gbit = 1
        [[kind]]
        name = "cache"
        class = "lc"
        vcpus = 2
        memory-gib = 6
        phases = [{ profile = "memcached" }]
        service = "20us"
        rate = 60000
        slo = { quantile = 0.99, bound = "500us" }
        [[kind]]
        name = "stream"
        class = "be"
        vcpus = 1
        memory-gib = 2
        movable = "never"
        phases = [{ profile = "lbm" }]
        [[workloads]]
        kind = "cache"
        count = 1
        hosts = [0]
        [[workloads]]
        kind = "stream"
        count = 6
        spread = true
    "#;

    fn placed(of: &[(&str, u32)]) -> BTreeMap<String, HostId> {
        of.iter().map(|(name, host)| ((*name).to_owned(), HostId(*host))).collect()
    }

    #[test]
    fn a_service_reports_what_it_suffers_where_its_pod_is() {
        let mut fake = Fake::new(&Scenario::parse(SCENARIO).unwrap(), 1).unwrap();
        let came = fake.pass(Nanos::ZERO);
        assert_eq!(came.len(), 7);
        let is_wanted = |change: &Change| matches!(change, Change::Came(it) if it.name == "stream-1-0" && !it.movable);
        assert!(came.iter().any(is_wanted), "{came:?}");
        assert_eq!(fake.waiting(), 7);
        let streams: Vec<String> = (1..7).map(|at| format!("stream-{at}-0")).collect();
        let mut on: Vec<(&str, u32)> = streams.iter().map(|name| (name.as_str(), 0)).collect();
        on.push(("cache-0-0", 0));
        let together = placed(&on);
        fake.placed(&together);
        assert_eq!(fake.waiting(), 0);
        fake.pass(Nanos::from_secs(120));
        let pods: BTreeMap<String, String> =
            together.keys().map(|name| (name.clone(), format!("lab/{name}-x"))).collect();
        let reports = |fake: &Fake| fake.reports(5, |host| format!("n{}", host.0), &pods);
        let beside = reports(&fake);
        assert_eq!((beside[0].node.as_str(), beside[0].heaviest.len(), beside[0].services.len()), ("n0", 7, 1));
        let latency = |reports: &[Report], at: usize| reports[at].services[0].measured.unwrap();

        let mut apart = together.clone();
        apart.insert("cache-0-0".into(), HostId(1));
        fake.placed(&apart);
        fake.pass(Nanos::from_secs(240));
        let alone = reports(&fake);
        assert!(latency(&alone, 1) < latency(&beside, 0), "{:?} {:?}", latency(&alone, 1), latency(&beside, 0));
        assert!(alone[1].by[0].value < beside[0].by[0].value);

        // Its pod is gone: it waits, which counts as beyond its SLO.
        apart.remove("cache-0-0");
        fake.placed(&apart);
        assert_eq!(fake.waiting(), 1);
        fake.pass(Nanos::from_secs(300));
        let (count, lost) = fake.count();
        assert_eq!(lost, 2);
        assert!((count.pending - 60.0).abs() < 1.0 && count.violated >= 60.0, "{count:?}");
    }
}
