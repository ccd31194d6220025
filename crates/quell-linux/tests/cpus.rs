//! CPUs that come and go, and what slices allow, on machines made of plain files, under policies.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use quell_linux::scheduler::Affinity;
use quell_linux::testkit::FakeTree;
use quell_linux::{HostOptions, LinuxHost};
use quell_model::{
    Class, CpuCount, CpuId, CpuSet, Event, Host, Layer, Nanos, Outcome, Policy, Reservation, Selector, SignalSet,
    Stack, Topology, Verdict, View, Workload, WorkloadId,
};
use quell_policy::AnyPolicy;

const CPUS: usize = 4;

fn machine() -> Topology {
    Topology::synthetic(1, 1, CPUS as u32, 1)
}

fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

/// A service in a slice of its own, and two batch jobs, one of them in a slice.
struct Scene {
    tree: FakeTree,
    host: LinuxHost,
    stack: Stack<AnyPolicy>,
    /// What the slices have; empty: all.
    slices: [CpuSet; 2],
    /// Refusals, by their text.
    refused: Vec<String>,
}

const SLICES: [&str; 2] = ["web.slice", "batch.slice"];
const GROUPS: [&str; 3] = ["web.slice/web.service", "batch.slice/batch.service", "rest.service"];

impl Scene {
    fn under(policy: &str, online: &CpuSet) -> Scene {
        let tree = FakeTree::new(&machine());
        tree.online_are(&machine(), online);
        for (at, group) in GROUPS.into_iter().enumerate() {
            tree.cgroup(group);
            let pid = 1000 + 10 * at as i32;
            tree.process(pid, 1, "work");
            tree.join(group, &[pid]);
        }
        let options = HostOptions { scan_interval: Nanos(1), ..HostOptions::default() };
        let mut host = tree.host(options).unwrap();
        let policy = AnyPolicy::named(policy).unwrap();
        if policy.describe().grants {
            let scheduler = Affinity::new(&host.topology(), host.cpus().1, None);
            host = host.with_scheduler(scheduler).unwrap();
        }
        for (at, group) in GROUPS.into_iter().enumerate() {
            let class = if at == 0 { Class::LatencyCritical } else { Class::BestEffort };
            let count = if at == 0 { CpuCount::whole(1) } else { CpuCount::ZERO };
            let mut workload = Workload::new(group, class, count);
            workload.selectors.push(Selector::Cgroup(group.into()));
            if at == 0 {
                workload.reservation = Reservation::Strict;
                workload.demand = serde_json::from_str(r#"{"budget":"3ms","period":"10ms"}"#).unwrap();
            }
            host.attach(workload).unwrap();
        }
        let mut layer = Layer::new(policy, None);
        layer.impossible = host.capabilities().impossible();
        let stack = Stack::new(vec![layer], View::new(host.topology()), host.cpus().1).unwrap();
        Scene { tree, host, stack, slices: [CpuSet::EMPTY; 2], refused: Vec::new() }
    }

    /// The kernel's part: effective sets follow.
    fn settle(&self) {
        let online = self.tree.online();
        for (slice, group) in [(Some(0), 0), (Some(1), 1), (None, 2)] {
            let above = match slice {
                Some(slice) => {
                    let own = self.slices[slice].intersection(&online);
                    let own = if own.is_empty() { online } else { own };
                    self.tree.write(format!("cgroup/{}/cpuset.cpus.effective", SLICES[slice]), &own.to_string());
                    own
                }
                None => online,
            };
            let own = cpus(&self.tree.read(format!("cgroup/{}/cpuset.cpus", GROUPS[group]))).intersection(&above);
            let own = if own.is_empty() { above } else { own };
            self.tree.write(format!("cgroup/{}/cpuset.cpus.effective", GROUPS[group]), &own.to_string());
        }
    }

    fn online(&self, online: &CpuSet) {
        self.tree.online_are(&machine(), online);
        self.settle();
    }

    fn slice(&mut self, slice: usize, cpus: CpuSet) {
        self.slices[slice] = cpus;
        self.tree.write(format!("cgroup/{}/cpuset.cpus", SLICES[slice]), &cpus.to_string());
        self.settle();
    }

    /// What a workload may have.
    fn allowed(&self, group: usize) -> CpuSet {
        let online = self.tree.online();
        let own = self.slices.get(group).map_or(CpuSet::EMPTY, |slice| slice.intersection(&online));
        if own.is_empty() { online } else { own }
    }

    fn effective(&self, group: usize) -> CpuSet {
        cpus(&self.tree.read(format!("cgroup/{}/cpuset.cpus.effective", GROUPS[group])))
    }

    fn turn(&mut self) {
        self.stack.turn(&mut self.host).unwrap();
        for event in &self.stack.first().outcomes {
            if let Event::Outcome(Outcome { verdict: Verdict::Refused(why), .. }) = event {
                self.refused.push(why.to_string());
            }
        }
        self.settle();
    }

    /// Turns until it holds, for at most 20 s.
    fn until(&mut self, what: &str, holds: impl Fn(&Scene) -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !holds(self) {
            assert!(
                Instant::now() < end,
                "{what}: {:?} of {} with {:?}, refused {:?}",
                (0..3).map(|group| self.effective(group).to_string()).collect::<Vec<_>>(),
                self.tree.online(),
                self.slices,
                self.refused
            );
            std::thread::sleep(Duration::from_millis(1));
            self.turn();
        }
    }

    /// Each has some of what it may have, and no CPU is left that one of them may have.
    fn is_right(&self) -> bool {
        let each = || (0..3).map(|group| (self.effective(group), self.allowed(group)));
        let used = each().fold(CpuSet::EMPTY, |all, (own, _)| all.union(&own));
        each().all(|(own, allowed)| !own.is_empty() && own.is_subset(&allowed)) && used == self.tree.online()
    }

    fn strict(&self) -> CpuSet {
        cpus(&self.tree.read(format!("cgroup/{}/cpuset.cpus", GROUPS[0])))
    }
}

#[test]
fn a_cpu_that_comes_online_joins_the_pool() {
    let mut scene = Scene::under("rkube", &cpus("0-1,3"));
    scene.turn();
    assert_eq!(scene.host.topology().all(), cpus("0-1,3"));
    scene.until("a CPU is reserved", |scene| scene.strict().len() == 1);
    let before = scene.strict();
    scene.online(&cpus("0-3"));
    scene.until("the others share it", |scene| scene.effective(2).contains(CpuId(2)));
    assert_eq!(scene.host.topology().all(), cpus("0-3"));
    assert_eq!(scene.stack.first().pool.intersection(&scene.stack.view().cpus.online), cpus("0-3"));
    assert_eq!(scene.strict(), before, "and the reservation is where it was");
    assert!(scene.refused.is_empty(), "{:?}", scene.refused);
}

#[test]
fn a_cpu_whose_caches_are_not_described_yet_joins_when_they_are() {
    let mut scene = Scene::under("rkube", &cpus("0-1,3"));
    scene.turn();
    scene.online(&cpus("0-3"));
    let (caches, hidden) = ("sys/devices/system/cpu/cpu2/cache", "sys/devices/system/cpu/cpu2/hidden");
    let path = |name| scene.tree.roots().sys.parent().unwrap().join(name);
    std::fs::rename(path(caches), path(hidden)).unwrap();
    let (from, to) = (path(hidden), path(caches));
    for _ in 0..5 {
        scene.turn();
        assert_eq!(scene.host.topology().all(), cpus("0-1,3"));
    }
    std::fs::rename(from, to).unwrap();
    scene.until("it joins", |scene| scene.host.topology().all() == cpus("0-3"));
    let topology = scene.host.topology();
    assert_eq!(topology.cpu(CpuId(2)).unwrap().llc, machine().cpu(CpuId(2)).unwrap().llc);
}

#[test]
fn a_reservation_is_within_what_the_slice_allows() {
    let mut scene = Scene::under("rkube", &cpus("0-3"));
    scene.slice(0, cpus("0-1"));
    scene.until("one of the two is reserved", |scene| {
        scene.strict().len() == 1 && scene.strict().is_subset(&cpus("0-1"))
    });
    let allowance = scene.host.allowance(WorkloadId(0)).unwrap();
    assert_eq!(allowance.to_string(), "CPUs 0-1");
    scene.slice(0, cpus("2"));
    scene.until("the reservation moves along", |scene| scene.strict() == cpus("2"));
    scene.slice(0, CpuSet::EMPTY);
    scene.until("the slice is wide again", |scene| scene.host.allowance(WorkloadId(0)).is_none());
    scene.tree.write("cgroup/web.slice/cpu.max", "50000 100000");
    scene.until("a quota is seen", |scene| {
        scene.host.allowance(WorkloadId(0)).is_some_and(|own| own.quota == Some(CpuCount(500)))
    });
    scene.host.restore();
    assert_eq!(scene.strict(), CpuSet::EMPTY);
}

#[test]
fn isolated_cpus_are_not_managed() {
    let tree = FakeTree::new(&Topology::synthetic(1, 1, 6, 1));
    tree.write("sys/devices/system/cpu/possible", "0-7");
    tree.write("sys/devices/system/cpu/nohz_full", "  (null)");
    tree.write("sys/devices/system/cpu/isolated", "3");
    let mut host = tree.host(HostOptions::default()).unwrap();
    assert_eq!(host.cpus(), (cpus("0-2,4-5"), cpus("0-2,4-7")));
    tree.write("sys/devices/system/cpu/nohz_full", "4");
    tree.write("cgroup/cpuset.cpus.isolated", "5");
    assert_eq!(host.cpus(), (cpus("0-2"), cpus("0-2,6-7")));
    let (mut view, mut events) = (View::new(host.topology()), Vec::new());
    host.observe(SignalSet::default(), &mut view, &mut events).unwrap();
    assert_eq!((view.cpus.isolated, view.cpus.online), (cpus("3-5"), cpus("0-5")), "the view has them");
    tree.write("sys/devices/system/cpu/isolated", "0-3");
    assert_eq!(host.cpus().0, cpus("0-5"), "where all are, none is kept for others");
}

/// What happens to a machine.
#[derive(Clone, Debug)]
enum Change {
    Online(u64),
    Slice(usize, u64),
    Quota(usize, Option<u32>),
}

fn change() -> impl Strategy<Value = Change> {
    let some = 0u64..1 << CPUS;
    prop_oneof![
        (1u64..1 << CPUS).prop_map(Change::Online),
        (0usize..2, some).prop_map(|(slice, cpus)| Change::Slice(slice, cpus)),
        (0usize..2, proptest::option::of(1u32..400)).prop_map(|(slice, quota)| Change::Quota(slice, quota)),
    ]
}

fn set(bits: u64) -> CpuSet {
    (0..CPUS as u32).filter(|cpu| bits >> cpu & 1 == 1).map(CpuId).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes and goes: no CPU is left unused that a workload may use, none has one that it may not, and nothing is
    /// refused again and again.
    #[test]
    fn no_cpu_is_left_out_whatever_comes_and_goes(
        policy in prop_oneof![Just("rkube"), Just("guard"), Just("vas"), Just("caladan")],
        changes in proptest::collection::vec(change(), 1..12),
    ) {
        let mut scene = Scene::under(policy, &cpus("0-2"));
        scene.turn();
        for change in &changes {
            match *change {
                Change::Online(bits) => scene.online(&set(bits)),
                Change::Slice(slice, bits) => scene.slice(slice, set(bits)),
                Change::Quota(slice, quota) => {
                    let text = quota.map_or("max 100000".to_owned(), |quota| format!("{} 100000", quota * 1000));
                    scene.tree.write(format!("cgroup/{}/cpu.max", SLICES[slice]), &text);
                }
            }
            scene.until(policy, Scene::is_right);
        }
        // A change may come between a look and a plan.
        prop_assert!(scene.refused.len() <= changes.len(), "{:?}", scene.refused);
        // A fake thread forgets its deadline.
        let left = scene.host.restore().left;
        prop_assert!(left.iter().all(|left| left.place.to_string().ends_with("class")), "{:?}", left);
        for group in GROUPS {
            prop_assert_eq!(scene.tree.read(format!("cgroup/{group}/cpuset.cpus")), "");
        }
    }
}
