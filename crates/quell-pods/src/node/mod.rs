//! The node: its pods, their reservations, and the events that change them.

mod machine;
mod reservations;
mod show;
mod tracked;
mod wanted;

pub use wanted::{EXCLUSIVE, PARTITION};

use std::collections::BTreeMap;

use quell_model::{CpuSet, Nanos, Topology};

use crate::path::PodPath;
use crate::pod::{Container, Sandbox};
use crate::refused::Refused;
use crate::rules::{Mode, Rules};
use crate::strict::{Ask, ask, is_strict};
use crate::view::PodView;
use machine::Machine;
use reservations::{Place, Reservations};
use tracked::{Stage, Tracked};

/// How long CPUs wait for a container that was created to be started.
const PATIENCE: Nanos = Nanos::from_secs(10);

/// What the kubelet makes of a request of one CPU.
pub(super) const SHARES_OF_A_CPU: u64 = 1024;

/// The pods of a node.
///
/// Events may come in any order: what they name and is not known is ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    rules: Rules,
    machine: Machine,
    /// By id.
    sandboxes: BTreeMap<String, Sandbox>,
    /// By id.
    containers: BTreeMap<String, Tracked>,
    reservations: Reservations,
    /// Why a place has no CPUs of its own although its pod asks for them.
    unmet: BTreeMap<Place, Refused>,
    /// Is each strict pod a CPU partition? Otherwise all others' CPU sets are kept clear of its CPUs.
    partitions: bool,
}

impl Node {
    /// A node without pods.
    #[must_use]
    pub fn new(rules: Rules, topology: Topology, online: CpuSet) -> Node {
        let machine = Machine { topology, online, reserved: rules.reserved, whole_cores: rules.whole_cores };
        Node {
            rules,
            machine,
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            reservations: Reservations::default(),
            unmet: BTreeMap::new(),
            partitions: false,
        }
    }

    /// From now on strict pods are CPU partitions, which keep everything else off their CPUs, what is in no pod, too; or they are not.
    pub fn set_partitions(&mut self, partitions: bool) {
        self.partitions = partitions;
    }

    /// Are strict pods CPU partitions, as far as it is for the node to say?
    #[must_use]
    pub fn has_partitions(&self) -> bool {
        self.partitions && self.acts()
    }

    /// All that the runtime has, at the start of a connection. Reservations stay: those known here, then those that the runtime
    /// says; the rest follows in the order of the sandboxes' ids, and what does not fit is remarked, since it runs already.
    pub fn synchronize(&mut self, now: Nanos, sandboxes: Vec<Sandbox>, containers: Vec<Container>) {
        self.sandboxes = sandboxes.into_iter().map(|sandbox| (sandbox.id.clone(), sandbox)).collect();
        let mut before = std::mem::take(&mut self.containers);
        for container in containers.into_iter().filter(|container| self.sandboxes.contains_key(&container.sandbox)) {
            let stage = Tracked::found(&container, before.remove(&container.id), now + PATIENCE);
            self.containers.insert(container.id.clone(), Tracked { container, stage });
        }
        let (sandboxes, tracked) = (&self.sandboxes, &self.containers);
        let exists = |place: &Place| tracked.values().any(|tracked| tracked.place() == *place);
        self.reservations.retain(|place, held| sandboxes.contains_key(&place.0) && (held.began || exists(place)));
        self.unmet.clear();
        self.adopt();
        self.settle();
    }

    /// A pod has come.
    pub fn sandbox_runs(&mut self, _now: Nanos, sandbox: Sandbox) {
        self.sandboxes.insert(sandbox.id.clone(), sandbox);
    }

    /// A pod has gone, and its reservations with it.
    pub fn sandbox_ends(&mut self, id: &str) {
        self.sandboxes.remove(id);
        self.containers.retain(|_, tracked| tracked.container.sandbox != id);
        self.reservations.retain(|place, _| place.0 != id);
        self.unmet.retain(|place, _| place.0 != id);
        self.settle();
    }

    /// A container is about to be created: the CPUs for it; none: as the runtime would.
    ///
    /// # Errors
    /// [`Refused`], if its pod is strict and it cannot have what it asks for; nothing has changed then.
    pub fn create(
        &mut self,
        now: Nanos,
        sandbox: &Sandbox,
        mut container: Container,
    ) -> Result<Option<CpuSet>, Refused> {
        container.sandbox.clone_from(&sandbox.id);
        let tracked = Tracked { container, stage: Stage::Created { until: now + PATIENCE } };
        let claimed = self.asked(sandbox, &tracked.container).and_then(|count| {
            let Some(count) = count else { return Ok(None) };
            let mut next = self.reservations.clone();
            let keep = self.release_finished(&mut next, &tracked.place());
            self.reserve(&mut next, &tracked, count, &keep).map(|()| Some(next))
        });
        self.take(claimed, &tracked.place())?;
        self.sandboxes.insert(sandbox.id.clone(), sandbox.clone());
        let (id, cgroup) = (tracked.container.id.clone(), tracked.container.cgroup.clone());
        let place = tracked.place();
        self.containers.insert(id, tracked);
        // What an init container gave back may be enough for another pod.
        self.settle();
        // Of a container whose cgroup is not below its pod's nothing is set later.
        let is_known = PodPath::of(sandbox).is_ok_and(|pod| pod.container(&cgroup).is_ok());
        Ok((is_known && self.sets_cpus_in(&place.0)).then(|| self.cpus_at(&place)))
    }

    /// The CPUs on which this container is to run, where anything is set on it.
    #[must_use]
    pub fn cpus_of(&self, id: &str) -> Option<CpuSet> {
        let tracked = self.containers.get(id)?;
        let pod = PodPath::of(self.sandboxes.get(&tracked.container.sandbox)?).ok()?;
        let place = tracked.place();
        let is_set = self.sets_cpus_in(&place.0) && pod.container(&tracked.container.cgroup).is_ok();
        is_set.then(|| self.cpus_at(&place))
    }

    /// A container starts.
    pub fn starts(&mut self, id: &str) {
        let Some(tracked) = self.containers.get_mut(id) else { return };
        tracked.set(Stage::Running);
        let place = tracked.place();
        self.reservations.begin(&place);
        self.settle();
    }

    /// A container gets other resources; 0: as before. It keeps what it can of its CPUs.
    ///
    /// # Errors
    /// [`Refused`], if it cannot have them; nothing has changed then.
    pub fn resize(&mut self, _now: Nanos, id: &str, shares: u64, quota: i64, period: u64) -> Result<(), Refused> {
        let Some(tracked) = self.containers.get(id) else { return Ok(()) };
        let mut resized = tracked.clone();
        resized.resize(shares, quota, period);
        let place = resized.place();
        if let Some(sandbox) = self.sandboxes.get(&place.0).filter(|_| resized.stage.is_live()) {
            let claimed = self.asked(sandbox, &resized.container).and_then(|count| {
                let Some(count) = count else { return Ok(None) };
                let mut next = self.reservations.clone();
                self.reserve(&mut next, &resized, count, &CpuSet::EMPTY).map(|()| Some(next))
            });
            self.take(claimed, &place)?;
            if resized.stage == Stage::Running {
                self.reservations.begin(&place);
            }
        }
        self.containers.insert(id.to_owned(), resized);
        self.settle();
        Ok(())
    }

    /// A container has stopped. Its CPUs wait for its restart.
    pub fn stops(&mut self, id: &str) {
        let Some(tracked) = self.containers.get_mut(id) else { return };
        tracked.set(Stage::Stopped);
        let place = tracked.place();
        self.left(&place);
    }

    /// A container has gone. Its CPUs wait for its restart.
    pub fn removed(&mut self, id: &str) {
        let Some(tracked) = self.containers.remove(id) else { return };
        self.left(&tracked.place());
    }

    /// CPUs come or go. A reservation that loses one gets another, if one is free.
    pub fn set_online(&mut self, online: CpuSet) {
        if !online.is_empty() {
            self.machine.online = online;
            self.settle();
        }
    }

    /// Takes back the CPUs of containers that were not started in time; has anything changed?
    pub fn expire(&mut self, now: Nanos) -> bool {
        let late: Vec<(String, Place)> = self
            .waiting()
            .filter(|(_, until)| *until <= now)
            .map(|(tracked, _)| (tracked.container.id.clone(), tracked.place()))
            .collect();
        for (id, place) in &late {
            if let Some(tracked) = self.containers.get_mut(id) {
                tracked.set(Stage::Late);
            }
            self.left(place);
        }
        !late.is_empty()
    }

    /// When `expire` has work next.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Nanos> {
        self.waiting().map(|(_, until)| until).min()
    }

    /// What files below the cgroup root should say; what is not named should be as the runtime left it.
    #[must_use]
    pub fn wanted(&self) -> BTreeMap<String, String> {
        wanted::files(self)
    }

    /// The pods, by namespace and name.
    #[must_use]
    pub fn pods(&self) -> Vec<PodView> {
        show::pods(self)
    }

    /// The CPUs that all share.
    #[must_use]
    pub fn shared(&self) -> CpuSet {
        self.machine.online.difference(&self.reservations.all())
    }

    /// The CPUs that strict containers have for themselves.
    #[must_use]
    pub fn reserved_for_strict(&self) -> CpuSet {
        self.reservations.all()
    }

    /// Is anything to be set?
    fn acts(&self) -> bool {
        self.rules.mode == Mode::Enforce && !self.reservations.all().is_empty()
    }

    /// Are CPU sets of this pod's containers set? Those of others are what a partition leaves over, by themselves.
    fn sets_cpus_in(&self, sandbox: &str) -> bool {
        self.acts() && (!self.partitions || !self.reservations.cpus_of(sandbox).is_empty())
    }

    /// The CPUs where a container runs: its own, else its pod's, else the shared ones.
    fn cpus_at(&self, place: &Place) -> CpuSet {
        let own = self.reservations.get(place).map_or(CpuSet::EMPTY, |held| held.cpus);
        let or_else = |cpus: CpuSet, other: CpuSet| if cpus.is_empty() { other } else { cpus };
        or_else(or_else(own, self.reservations.cpus_of(&place.0)), self.shared())
    }

    /// How many CPUs of its own a container asks for; none: it shares, or runs with its pod. A container whose cgroup is not below
    /// its pod's shares.
    fn asked(&self, sandbox: &Sandbox, container: &Container) -> Result<Option<usize>, Refused> {
        let Ok(pod) = PodPath::of(sandbox) else { return Ok(None) };
        if pod.container(&container.cgroup).is_err() || !is_strict(sandbox, &self.rules)? {
            return Ok(None);
        }
        let below_one = |asked| Refused::BelowOne { name: container.name.clone(), asked };
        let has_own = self.reservations.get(&(sandbox.id.clone(), container.name.clone())).is_some();
        // A sidecar may come before the container whose CPUs it will share.
        let others_ask = sandbox.shares >= SHARES_OF_A_CPU;
        let others_have = self.reservations.of(&sandbox.id).next().is_some();
        match ask(container, pod.qos)? {
            Ask::Own(count) => Ok(Some(count)),
            Ask::Part(asked) if has_own || !others_ask && !others_have => Err(below_one(asked)),
            Ask::WithPod if has_own => Err(below_one(quell_model::CpuCount::ZERO)),
            Ask::Part(_) | Ask::WithPod => Ok(None),
        }
    }

    fn reserve(&self, in_: &mut Reservations, tracked: &Tracked, count: usize, keep: &CpuSet) -> Result<(), Refused> {
        let place = tracked.place();
        if in_.reserve(&self.machine, &place, count, keep) {
            return Ok(());
        }
        Err(Refused::Full(show::no_room(self, in_, &place, count)))
    }

    /// Commits what was claimed. In observe mode nothing is refused.
    fn take(&mut self, claimed: Result<Option<Reservations>, Refused>, place: &Place) -> Result<(), Refused> {
        match claimed {
            Ok(next) => {
                self.reservations = next.unwrap_or_else(|| std::mem::take(&mut self.reservations));
                self.unmet.remove(place);
                Ok(())
            }
            Err(refused) if self.rules.mode == Mode::Enforce => Err(refused),
            Err(refused) => {
                self.unmet.insert(place.clone(), refused);
                Ok(())
            }
        }
    }

    /// Gives back what init containers had: they stopped before a container of another name asks for CPUs the first time.
    fn release_finished(&self, from: &mut Reservations, place: &Place) -> CpuSet {
        if from.get(place).is_some() {
            return CpuSet::EMPTY;
        }
        let mut theirs: Vec<Place> = from.of(&place.0).map(|(name, _)| (place.0.clone(), name.to_owned())).collect();
        theirs.retain(|place| !self.lives(place));
        theirs.iter().fold(CpuSet::EMPTY, |all, place| all.union(&from.release(place)))
    }

    fn lives(&self, place: &Place) -> bool {
        self.containers.values().any(|tracked| tracked.stage.is_live() && tracked.place() == *place)
    }

    /// A place has one container less: CPUs where none was ever started are free again.
    fn left(&mut self, place: &Place) {
        if !self.lives(place) {
            if self.reservations.get(place).is_some_and(|held| !held.began) {
                self.reservations.release(place);
            }
            self.unmet.remove(place);
        }
        self.settle();
    }

    /// Containers for which CPUs wait, and until when.
    fn waiting(&self) -> impl Iterator<Item = (&Tracked, Nanos)> {
        self.containers.values().filter_map(|tracked| {
            let Stage::Created { until } = tracked.stage else { return None };
            let held = self.reservations.get(&tracked.place())?;
            (!held.began).then_some((tracked, until))
        })
    }

    /// The containers of each sandbox, by their ids.
    fn by_sandbox(&self) -> BTreeMap<&str, Vec<&Tracked>> {
        let mut all: BTreeMap<&str, Vec<&Tracked>> = BTreeMap::new();
        for tracked in self.containers.values() {
            all.entry(&tracked.container.sandbox).or_default().push(tracked);
        }
        all
    }

    /// The containers in the order of their sandboxes' ids.
    fn in_order(&self) -> Vec<&Tracked> {
        let mut all: Vec<&Tracked> = self.containers.values().collect();
        all.sort_by_key(|tracked| (&tracked.container.sandbox, &tracked.container.id));
        all
    }

    /// Takes over the CPUs that the runtime says, where they are what a container asks for.
    fn adopt(&mut self) {
        let mut next = self.reservations.clone();
        for tracked in self.in_order() {
            let (container, place) = (&tracked.container, tracked.place());
            let Some(sandbox) = self.sandboxes.get(&place.0) else { continue };
            let Ok(Some(count)) = self.asked(sandbox, container) else { continue };
            if let (Some(held), Stage::Running) = (next.get(&place), tracked.stage)
                && held.asked != count
            {
                // Resized meanwhile. Without room it keeps what it has.
                next.reserve(&self.machine, &place, count, &CpuSet::EMPTY);
            } else if let Ok(cpus) = container.cpus.parse::<CpuSet>() {
                next.adopt(&self.machine, &place, count, &cpus);
            }
        }
        self.reservations = next;
    }

    /// After any change: reservations fit the CPUs there are, and whatever runs without CPUs of its own gets them as soon as
    /// there is room.
    fn settle(&mut self) {
        self.reservations.refit(&self.machine);
        let running = |tracked: &&Tracked| tracked.stage == Stage::Running;
        let running: Vec<String> =
            self.in_order().into_iter().filter(running).map(|tracked| tracked.container.id.clone()).collect();
        for tracked in running.iter().filter_map(|id| self.containers.get(id)) {
            let place = tracked.place();
            if self.reservations.get(&place).is_none() {
                let claimed = match self.sandboxes.get(&place.0).map(|sandbox| self.asked(sandbox, &tracked.container))
                {
                    Some(Ok(Some(count))) => {
                        let mut next = self.reservations.clone();
                        self.reserve(&mut next, tracked, count, &CpuSet::EMPTY).map(|()| self.reservations = next)
                    }
                    Some(Err(refused)) => Err(refused),
                    _ => Ok(()),
                };
                match claimed {
                    Ok(()) => drop(self.unmet.remove(&place)),
                    Err(refused) => drop(self.unmet.insert(place.clone(), refused)),
                }
            }
            self.reservations.begin(&place);
        }
    }
}

#[cfg(test)]
mod tests;
