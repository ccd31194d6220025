//! Caladan on the host that lends by affinity, with counters of the test.

use std::time::Duration;

use quell_model::{
    Class, CpuCount, CpuId, CpuSet, GrantCommand, Host, Plan, Selector, Stack, Topology, Workload, WorkloadId,
};
use quell_policy::caladan::{Caladan, CaladanConfig};

use super::misses::CACHE_MISSES;
use super::*;
use crate::perf::{Bench, Event};
use crate::scheduler::Affinity;
use crate::testkit::FakeTree;
use crate::{HostOptions, LinuxHost};

const CAS: Event = Event { kind: 20, config: [0x04, 0, 0] };
const SECOND: Nanos = Nanos::from_secs(1);
const THRESH_BW: f64 = 25e9;

/// Two best-effort workloads: the collector has CPUs 0 and 1, the quiet one has CPU 2.
struct Scene {
    _tree: FakeTree,
    bench: Bench,
    host: LinuxHost,
    stack: Stack<Caladan>,
    collector: WorkloadId,
}

impl Scene {
    fn new() -> Scene {
        let (tree, bench) = (FakeTree::new(&Topology::synthetic(1, 1, 3, 1)), Bench::default());
        for (file, text) in
            [("type", "20"), ("cpumask", "0"), ("format/event", "config:0-7"), ("events/cas_count_read", "event=0x04")]
        {
            tree.write(format!("sys/bus/event_source/devices/uncore_imc_0/{file}"), text);
        }
        let linux = tree.host(HostOptions::default()).unwrap().with_counters(bench.counters());
        let affinity = Affinity::new(&linux.topology(), CpuSet::first(3), None);
        let mut host = linux.with_scheduler(affinity).unwrap();
        let [collector, quiet] = [("collector", 1000), ("quiet", 2000)].map(|(name, pid)| {
            tree.cgroup(name);
            tree.process(pid, 1, name);
            tree.join(name, &[pid]);
            let mut workload = Workload::new(name, Class::BestEffort, CpuCount::ZERO);
            workload.selectors.push(Selector::Cgroup(name.into()));
            host.attach(workload).unwrap()
        });
        let grants = [(0, collector), (1, collector), (2, quiet)];
        let grants = grants.map(|(cpu, id)| GrantCommand::Grant(CpuId(cpu), id)).to_vec();
        host.apply(&Plan { grants, ..Plan::default() }, &mut Vec::new()).unwrap();
        let config = CaladanConfig { thresh_bw: Some(BytesPerSecond(THRESH_BW)), ..CaladanConfig::default() };
        let stack = Stack::of_one(Caladan::new(config), View::new(host.topology()));
        Scene { _tree: tree, bench, host, stack, collector }
    }

    /// A turn later; the machine moves this many bytes a second, and CPU 1 misses most.
    fn turn(&mut self, bytes_per_second: f64) {
        std::thread::sleep(Duration::from_millis(1));
        self.bench.count(CAS, CpuId(0), (bytes_per_second / 64.0) as u64, SECOND);
        for (cpu, misses) in [(0, 1_000_000), (1, 9_000_000), (2, 10)] {
            self.bench.count(CACHE_MISSES, CpuId(cpu), misses, SECOND);
        }
        self.stack.turn(&mut self.host).unwrap();
    }

    fn revoked(&self) -> Vec<CpuId> {
        let revoked = self.stack.first().plan.grants.iter().filter_map(|grant| match grant {
            GrantCommand::Revoke(cpu) => Some(*cpu),
            GrantCommand::Grant(..) => None,
        });
        revoked.collect()
    }
}

#[test]
fn who_saturates_the_bus_loses_the_cpu_that_misses_most() {
    let mut scene = Scene::new();
    for _ in 0..20 {
        scene.turn(THRESH_BW * 0.5);
        assert!(scene.revoked().is_empty() && scene.stack.first().plan.samples.is_empty(), "nothing is wrong");
    }
    let turns = (1..=100).find(|_| {
        scene.turn(THRESH_BW * 1.2);
        !scene.revoked().is_empty()
    });
    assert!(turns.is_some_and(|turns| turns > 2), "one to see it, and a start and an end: {turns:?}");
    assert_eq!(scene.revoked(), [CpuId(1)]);
    scene.turn(THRESH_BW * 0.5);
    let holder = |cpu: usize| scene.stack.view().cpus.holder[cpu];
    assert_eq!((holder(0), holder(1)), (Some(scene.collector), None));
    assert!(holder(2).is_some_and(|holder| holder != scene.collector));
}

#[test]
fn without_counters_nobody_is_throttled() {
    let mut scene = Scene::new();
    scene.bench.refuse(libc::ENOENT);
    let mut said = 0;
    for _ in 0..20 {
        scene.turn(THRESH_BW * 1.2);
        said += scene
            .stack
            .first()
            .plan
            .notes
            .iter()
            .filter(|note| note.text.contains("bandwidth controller is off"))
            .count();
        assert!(scene.revoked().is_empty() && scene.stack.first().plan.samples.is_empty());
    }
    assert_eq!(said, 1);
}
