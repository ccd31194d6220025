//! Events in any order.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Runs(u8),
    Ends(u8),
    Create { pod: u8, name: u8, milli: u64, limited: bool },
    Starts(usize),
    Stops(usize),
    Removed(usize),
    Resize(usize, u64),
    Online(u16),
    Expire(u64),
    Synchronize { pods: u8, running: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let milli = prop_oneof![Just(0_u64), Just(100), Just(1000), Just(1000), Just(1500), Just(2000), Just(3000)];
    let create = (0_u8..8, 0_u8..3, milli.clone(), any::<bool>());
    prop_oneof![
        1 => (0_u8..8).prop_map(Step::Runs),
        2 => (0_u8..8).prop_map(Step::Ends),
        8 => create.prop_map(|(pod, name, milli, limited)| Step::Create { pod, name, milli, limited }),
        8 => any::<usize>().prop_map(Step::Starts),
        3 => any::<usize>().prop_map(Step::Stops),
        2 => any::<usize>().prop_map(Step::Removed),
        4 => (any::<usize>(), milli).prop_map(|(at, milli)| Step::Resize(at, milli)),
        2 => any::<u16>().prop_map(Step::Online),
        2 => (0_u64..8).prop_map(Step::Expire),
        1 => (any::<u8>(), any::<u32>()).prop_map(|(pods, running)| Step::Synchronize { pods, running }),
    ]
}

/// Pods 0 to 4 are strict, 5 may not be, 6 is standard, and 7 is not below kubepods.
fn any_pod(number: u8) -> Sandbox {
    let id = format!("p{number}");
    match number {
        0..=4 => strict(&id),
        5 => Sandbox { namespace: "other".into(), ..strict(&id) },
        6 => pod(&id),
        _ => Sandbox { cgroup: "/system.slice/x".into(), ..strict(&id) },
    }
}

/// The node, and what the runtime would know.
struct Run {
    node: Node,
    now: Nanos,
    containers: Vec<Container>,
    created: usize,
}

impl Run {
    fn id(&self, at: usize) -> String {
        let at = at.checked_rem(self.containers.len());
        at.map_or_else(|| "none".to_owned(), |at| self.containers[at].id.clone())
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Runs(number) => self.node.sandbox_runs(self.now, any_pod(number)),
            Step::Ends(number) => {
                let id = format!("p{number}");
                self.node.sandbox_ends(&id);
                self.containers.retain(|container| container.sandbox != id);
            }
            Step::Create { pod, name, milli, limited } => {
                self.created += 1;
                let sandbox = any_pod(pod);
                let quota = if limited { 150_000 } else { 0 };
                let (id, name) = (format!("c{}", self.created), format!("n{name}"));
                let container = Container { quota, ..container(&sandbox, &id, &name, milli) };
                let before = self.node.clone();
                match self.node.create(self.now, &sandbox, container.clone()) {
                    Ok(cpus) => {
                        assert!(cpus.is_none_or(|cpus| !cpus.is_empty()), "NRI reads an empty set as unchanged");
                        self.containers.push(container);
                    }
                    Err(refused) => self.is_refused(&before, &refused),
                }
            }
            Step::Starts(at) => self.node.starts(&self.id(at)),
            Step::Stops(at) => self.node.stops(&self.id(at)),
            Step::Removed(at) => {
                let id = self.id(at);
                self.node.removed(&id);
                self.containers.retain(|container| container.id != id);
            }
            Step::Resize(at, milli) => {
                let before = self.node.clone();
                if let Err(refused) = self.node.resize(self.now, &self.id(at), milli * 1024 / 1000, 0, 0) {
                    self.is_refused(&before, &refused);
                }
            }
            Step::Online(bits) => {
                self.node.set_online((0..8).filter(|cpu| bits >> cpu & 1 == 1).map(quell_model::CpuId).collect());
            }
            Step::Expire(seconds) => {
                self.now += Nanos::from_secs(seconds);
                let due = self.node.next_expiry().is_some_and(|at| at <= self.now);
                assert_eq!(self.node.expire(self.now), due);
                assert!(self.node.next_expiry().is_none_or(|at| at > self.now));
            }
            Step::Synchronize { pods, running } => {
                let sandboxes: Vec<Sandbox> = (0..8).filter(|number| pods >> number & 1 == 1).map(any_pod).collect();
                self.containers.retain(|container| sandboxes.iter().any(|sandbox| sandbox.id == container.sandbox));
                for (at, container) in self.containers.iter_mut().enumerate() {
                    container.is_running = running >> (at % 32) & 1 == 1;
                }
                self.node.synchronize(self.now, sandboxes, self.containers.clone());
            }
        }
    }

    fn is_refused(&self, before: &Node, refused: &Refused) {
        assert_eq!(self.node.rules.mode, Mode::Enforce);
        assert_eq!(&self.node, before, "a refusal changes nothing");
        let text = refused.to_string();
        assert!(text.contains("; ") && !text.contains('\n'), "{text}");
    }

    fn invariants(&self) {
        let node = &self.node;
        let mut all = CpuSet::EMPTY;
        for (place, held) in node.reservations.iter() {
            assert!(all.is_disjoint(&held.cpus), "{place:?} overlaps another one");
            assert!(node.sandboxes.contains_key(&place.0));
            all = all.union(&held.cpus);
        }
        assert_eq!(node.reserved_for_strict(), all);
        assert!(!node.shared().is_empty() && node.shared().is_disjoint(&all));
        assert!(node.rules.reserved.is_disjoint(&all) && all.is_subset(&node.machine.online));
        let wanted = node.wanted();
        assert!(node.acts() || wanted.is_empty());
        for (file, text) in wanted {
            assert!(file.starts_with("kubepods/"), "{file}");
            if file.ends_with("/cpuset.cpus") {
                let set = cpus(&text);
                assert!(!set.is_empty() && set.is_subset(&node.machine.online), "{file}");
                assert!(set == node.shared() || set.is_subset(&all), "{file}: {text}");
            } else {
                assert!(file.ends_with("/cpu.max") && text == "max");
            }
        }
        assert_eq!(node.pods().len(), node.sandboxes.len());
    }
}

/// 10,000 steps and more of each kind of node.
const CASES: u32 = 64;
const STEPS: usize = 160;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn in_any_order_nothing_overlaps_and_nothing_is_empty(
        steps in prop::collection::vec(step(), STEPS),
        observe in prop::bool::weighted(0.2),
        whole_cores in any::<bool>(),
        threads in 1_u32..3,
    ) {
        let topology = Topology::synthetic(1, 1, 8 / threads, threads);
        let online = topology.all();
        let mode = if observe { Mode::Observe } else { Mode::Enforce };
        let node = Node::new(Rules { whole_cores, ..rules(mode) }, topology, online);
        let mut run = Run { node, now: Nanos::ZERO, containers: Vec::new(), created: 0 };
        for step in steps {
            run.take(step);
            run.invariants();
        }
        (0..8).for_each(|number| run.take(Step::Ends(number)));
        prop_assert!(run.node.wanted().is_empty() && run.node.reserved_for_strict().is_empty());
        prop_assert_eq!(run.node.next_expiry(), None);
        prop_assert!(run.node.pods().is_empty() && run.node.unmet.is_empty() && run.node.containers.is_empty());
    }
}
