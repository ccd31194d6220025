//! Numbers of hosts and workloads. Pods that replace each other under one owner have one *seat*, which is the workload: history,
//! budget and judgement follow it. A move is an eviction, and ends by what becomes of the seat.

use std::collections::{BTreeMap, BTreeSet};

use quell_model::cluster::{ClusterEvent, HostId, HostState, MoveEnd};
use quell_model::{Nanos, WorkloadId};

use super::seen::PodSeen;
use super::world::Objects;

/// A seat without a pod is kept for this time, for the next pod of its owner.
const KEPT: Nanos = Nanos::from_secs(60);

/// A move under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Moving {
    /// The node that the pod leaves.
    pub from: String,
    /// The wish: an eviction has no destination.
    pub to: HostId,
    /// When it was asked for.
    pub begun: Nanos,
    /// When it is given up.
    pub deadline: Nanos,
    /// The pod that was evicted.
    pub old: String,
}

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Seat {
    /// Its pod's uid; None: it waits for the next one.
    pub pod: Option<String>,
    /// `NAMESPACE/NAME` of its latest pod.
    pub path: String,
    /// Its owner's uid; a bare pod has none.
    pub owner: Option<String>,
    /// The node of its latest pod.
    pub node: Option<String>,
    /// Its move.
    pub moving: Option<Moving>,
    empty_since: Nanos,
}

/// All hosts and workloads with their numbers.
#[derive(Clone, Debug, Default)]
pub struct Seats {
    /// By host: its node's name; None: gone.
    pub hosts: Vec<Option<String>>,
    /// By workload.
    pub seats: Vec<Option<Seat>>,
    by_node: BTreeMap<String, (HostId, HostState)>,
    by_pod: BTreeMap<String, WorkloadId>,
}

impl Seats {
    /// The host of a node.
    #[must_use]
    pub fn host(&self, node: &str) -> Option<HostId> {
        self.by_node.get(node).map(|(host, _)| *host)
    }

    /// The seat of a workload.
    #[must_use]
    pub fn seat(&self, id: WorkloadId) -> Option<&Seat> {
        self.seats.get(id.index())?.as_ref()
    }

    /// A move of the workload was asked for.
    pub fn begin(&mut self, id: WorkloadId, moving: Moving) {
        if let Some(Some(seat)) = self.seats.get_mut(id.index()) {
            seat.moving = Some(moving);
        }
    }

    /// Takes in what the API server says now; appends the events since the last call.
    pub fn update(&mut self, objects: &Objects, now: Nanos, events: &mut Vec<ClusterEvent>) {
        self.update_hosts(objects, events);
        self.leave(objects, now);
        self.arrive(objects);
        self.end_moves(objects, now, events);
        self.free(now, events);
    }

    fn update_hosts(&mut self, objects: &Objects, events: &mut Vec<ClusterEvent>) {
        let gone = |name: &&String| !objects.nodes.contains_key(*name);
        let gone: Vec<String> = self.by_node.keys().filter(gone).cloned().collect();
        // Places that are free by now: those of the hosts that go in this turn are not given away in it.
        let mut free: Vec<usize> = (0..self.hosts.len()).filter(|at| self.hosts[*at].is_none()).collect();
        for name in gone {
            if let Some((host, _)) = self.by_node.remove(&name) {
                self.hosts[host.index()] = None;
                events.push(ClusterEvent::HostWent(host));
            }
        }
        for (name, node) in &objects.nodes {
            if let Some((host, state)) = self.by_node.get_mut(name) {
                if *state != node.state {
                    *state = node.state;
                    events.push(ClusterEvent::HostChanged(*host));
                }
                continue;
            }
            let at = free.pop().unwrap_or_else(|| {
                self.hosts.push(None);
                self.hosts.len() - 1
            });
            let host = HostId(at as u32);
            self.hosts[at] = Some(name.clone());
            self.by_node.insert(name.clone(), (host, node.state));
            events.push(ClusterEvent::HostCame(host));
        }
    }

    /// Pods that are gone leave their seats.
    fn leave(&mut self, objects: &Objects, now: Nanos) {
        self.by_pod.retain(|uid, id| {
            let is_there = objects.pods.contains_key(uid);
            let seat = self.seats.get_mut(id.index()).and_then(Option::as_mut);
            if let Some(seat) = seat.filter(|seat| !is_there && seat.pod.as_ref() == Some(uid)) {
                (seat.pod, seat.empty_since) = (None, now);
            }
            is_there
        });
    }

    /// New pods take the seats that wait for one of their owner, and else new ones.
    fn arrive(&mut self, objects: &Objects) {
        let mut waiting: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut free = Vec::new();
        let owners: BTreeSet<&str> =
            objects.pods.values().filter_map(|pod| Some(pod.owner.as_ref()?.uid.as_str())).collect();
        for (at, seat) in self.seats.iter().enumerate().rev() {
            match seat {
                None => free.push(at),
                Some(Seat { owner: Some(owner), pod, moving, .. }) => {
                    // A replacement may be made while the evicted pod still ends.
                    let is_leaving = |uid: &String| objects.pods.get(uid).is_some_and(|pod| pod.leaving);
                    let waits = match pod {
                        None => true,
                        Some(uid) => is_leaving(uid) && moving.as_ref().is_some_and(|moving| moving.old == *uid),
                    };
                    if let (true, Some(owner)) = (waits, owners.get(owner.as_str())) {
                        waiting.entry(owner).or_default().push(at);
                    }
                }
                Some(_) => {}
            }
        }
        for (uid, pod) in &objects.pods {
            let owner = pod.owner.as_ref().map(|owner| owner.uid.clone());
            if let Some(id) = self.by_pod.get(uid) {
                let seat = self.seats.get_mut(id.index()).and_then(Option::as_mut);
                if let Some(seat) = seat.filter(|seat| seat.pod.as_ref() == Some(uid)) {
                    seat.node.clone_from(&pod.node);
                }
                continue;
            }
            if pod.leaving {
                continue;
            }
            let old = owner.as_deref().and_then(|owner| waiting.get_mut(owner)).and_then(Vec::pop);
            let at = old.or_else(|| free.pop()).unwrap_or_else(|| {
                self.seats.push(None);
                self.seats.len() - 1
            });
            let moving = self.seats[at].take().and_then(|seat| seat.moving);
            self.seats[at] = Some(Seat {
                pod: Some(uid.clone()),
                path: pod.path(),
                owner,
                node: pod.node.clone(),
                moving,
                empty_since: Nanos::ZERO,
            });
            self.by_pod.insert(uid.clone(), WorkloadId(at as u32));
        }
    }

    fn end_moves(&mut self, objects: &Objects, now: Nanos, events: &mut Vec<ClusterEvent>) {
        for (at, seat) in self.seats.iter_mut().enumerate() {
            let Some(seat) = seat else { continue };
            let Some(moving) = &seat.moving else { continue };
            let pod = seat.pod.as_ref().filter(|uid| **uid != moving.old).and_then(|uid| objects.pods.get(uid));
            let Some(end) = end_of(moving, pod, now) else { continue };
            seat.moving = None;
            events.push(ClusterEvent::MoveEnded(WorkloadId(at as u32), end));
        }
    }

    fn free(&mut self, now: Nanos, events: &mut Vec<ClusterEvent>) {
        for (at, place) in self.seats.iter_mut().enumerate() {
            let is_over = |seat: &Seat| {
                let kept = if seat.owner.is_some() { KEPT } else { Nanos::ZERO };
                seat.pod.is_none() && seat.moving.is_none() && now >= seat.empty_since + kept
            };
            if place.as_ref().is_some_and(is_over) {
                *place = None;
                events.push(ClusterEvent::Ended(WorkloadId(at as u32)));
            }
        }
    }
}

/// How a move ended, with the pod that replaces the evicted one; None: it goes on.
fn end_of(moving: &Moving, replacement: Option<&PodSeen>, now: Nanos) -> Option<MoveEnd> {
    let is_late = now >= moving.deadline;
    match replacement {
        Some(pod) if pod.node.as_ref() == Some(&moving.from) => Some(MoveEnd::Failed),
        Some(pod) if pod.node.is_some() && pod.ready => Some(MoveEnd::Arrived(now - moving.begun)),
        Some(_) => is_late.then_some(MoveEnd::TooLate),
        None => is_late.then_some(MoveEnd::Lost),
    }
}

#[cfg(test)]
mod tests {
    use quell_model::cluster::Movable;
    use quell_model::{Class, CpuCount};

    use super::super::seen::{NodeSeen, Owner};
    use super::*;

    fn at(secs: u64) -> Nanos {
        Nanos::from_secs(secs)
    }

    fn objects(nodes: &[&str]) -> Objects {
        let node = NodeSeen {
            state: HostState::Ready,
            cores: CpuCount::whole(8),
            cpus: CpuCount::whole(8),
            memory: 1 << 34,
            mark: Default::default(),
            report: None,
        };
        let nodes = nodes.iter().map(|name| ((*name).to_owned(), node.clone())).collect();
        Objects { nodes, ..Objects::default() }
    }

    fn pod(node: &str, ready: bool) -> PodSeen {
        PodSeen {
            namespace: "a".into(),
            name: "p".into(),
            node: (!node.is_empty()).then(|| node.to_owned()),
            owner: Some(Owner { uid: "owner".into(), ..Owner::default() }),
            class: Class::BestEffort,
            movable: Movable::Restart,
            cpus: CpuCount::whole(1),
            memory: 1,
            ready,
            leaving: false,
        }
    }

    /// Two nodes, a pod on the first whose move begins at 10 s with a deadline at 100 s.
    fn moving() -> (Seats, Objects, WorkloadId) {
        let (mut seats, mut objects, mut events) = (Seats::default(), objects(&["n1", "n2"]), Vec::new());
        objects.pods.insert("u1".into(), pod("n1", true));
        seats.update(&objects, at(0), &mut events);
        assert_eq!(events, [ClusterEvent::HostCame(HostId(0)), ClusterEvent::HostCame(HostId(1))]);
        let moving = Moving { from: "n1".into(), to: HostId(1), begun: at(10), deadline: at(100), old: "u1".into() };
        seats.begin(WorkloadId(0), moving);
        (seats, objects, WorkloadId(0))
    }

    fn update(seats: &mut Seats, objects: &Objects, secs: u64) -> Vec<ClusterEvent> {
        let mut events = Vec::new();
        seats.update(objects, at(secs), &mut events);
        events
    }

    #[test]
    fn a_move_arrives_with_the_replacement_ready_elsewhere() {
        let (mut seats, mut objects, id) = moving();
        objects.pods.get_mut("u1").unwrap().leaving = true;
        objects.pods.insert("u2".into(), pod("", false));
        assert_eq!(update(&mut seats, &objects, 11), []);
        assert_eq!(seats.seat(id).unwrap().pod.as_deref(), Some("u2"));
        objects.pods.insert("u2".into(), pod("n2", false));
        objects.pods.remove("u1");
        assert_eq!(update(&mut seats, &objects, 20), []);
        objects.pods.insert("u2".into(), pod("n2", true));
        assert_eq!(update(&mut seats, &objects, 25), [ClusterEvent::MoveEnded(id, MoveEnd::Arrived(at(15)))]);
        assert_eq!(update(&mut seats, &objects, 200), []);
        assert_eq!(seats.seats.len(), 1);
    }

    #[test]
    fn back_on_the_source_it_failed_and_not_ready_by_the_deadline_it_is_late() {
        let (mut seats, mut objects, id) = moving();
        objects.pods.clear();
        objects.pods.insert("u2".into(), pod("n1", false));
        assert_eq!(update(&mut seats, &objects, 20), [ClusterEvent::MoveEnded(id, MoveEnd::Failed)]);
        let (mut seats, mut objects, id) = moving();
        objects.pods.clear();
        objects.pods.insert("u2".into(), pod("n2", false));
        assert_eq!(update(&mut seats, &objects, 99), []);
        assert_eq!(update(&mut seats, &objects, 100), [ClusterEvent::MoveEnded(id, MoveEnd::TooLate)]);
        let (mut seats, mut objects, id) = moving();
        objects.pods.clear();
        assert_eq!(update(&mut seats, &objects, 20), []);
        let lost = [ClusterEvent::MoveEnded(id, MoveEnd::Lost), ClusterEvent::Ended(id)];
        assert_eq!(update(&mut seats, &objects, 100), lost);
    }

    #[test]
    fn the_next_pod_of_an_owner_has_its_seat_and_that_of_another_has_not() {
        let (mut seats, mut objects, mut events) = (Seats::default(), objects(&["n1"]), Vec::new());
        objects.pods.insert("u1".into(), pod("n1", true));
        seats.update(&objects, at(0), &mut events);
        objects.pods.clear();
        assert_eq!(update(&mut seats, &objects, 1), []);
        let other = PodSeen { owner: Some(Owner { uid: "other".into(), ..Owner::default() }), ..pod("n1", true) };
        objects.pods.insert("u0".into(), other);
        objects.pods.insert("u2".into(), pod("n1", true));
        update(&mut seats, &objects, 2);
        assert_eq!(seats.by_pod["u2"], WorkloadId(0));
        assert_eq!(seats.by_pod["u0"], WorkloadId(1));
        objects.pods.remove("u2");
        update(&mut seats, &objects, 3);
        assert_eq!(update(&mut seats, &objects, 63), [ClusterEvent::Ended(WorkloadId(0))]);
    }

    #[test]
    fn a_node_that_is_renamed_is_another_one() {
        let (mut seats, mut nodes) = (Seats::default(), objects(&["n1"]));
        update(&mut seats, &nodes, 0);
        nodes = objects(&["n2"]);
        let changed = update(&mut seats, &nodes, 1);
        assert_eq!(changed, [ClusterEvent::HostWent(HostId(0)), ClusterEvent::HostCame(HostId(1))]);
        update(&mut seats, &objects(&["n2", "n3"]), 2);
        assert_eq!(seats.hosts, [Some("n3".to_owned()), Some("n2".to_owned())]);
    }
}
