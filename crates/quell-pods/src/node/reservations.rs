//! Which container has which CPUs for itself.

use std::collections::BTreeMap;

use quell_model::CpuSet;

use super::machine::Machine;

/// A container's place: its sandbox's id and its name in the pod. It survives the container's restart.
pub(super) type Place = (String, String);

/// The CPUs of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Fewer than asked for, perhaps none, where CPUs went offline.
    pub(super) cpus: CpuSet,
    /// CPUs, or whole cores.
    pub(super) asked: usize,
    /// Was a container ever started here?
    pub(super) began: bool,
}

/// All reservations. No CPU is in two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reservations {
    held: BTreeMap<Place, Held>,
}

impl Reservations {
    pub(super) fn get(&self, place: &Place) -> Option<&Held> {
        self.held.get(place)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Place, &Held)> {
        self.held.iter()
    }

    /// Those of a sandbox, by name.
    pub(super) fn of<'a>(&'a self, sandbox: &'a str) -> impl Iterator<Item = (&'a str, &'a Held)> {
        let from = (sandbox.to_owned(), String::new());
        let its = self.held.range(from..).take_while(move |((of, _), _)| of == sandbox);
        its.map(|((_, name), held)| (name.as_str(), held))
    }

    pub(super) fn cpus_of(&self, sandbox: &str) -> CpuSet {
        self.of(sandbox).fold(CpuSet::EMPTY, |all, (_, held)| all.union(&held.cpus))
    }

    pub(super) fn all(&self) -> CpuSet {
        self.held.values().fold(CpuSet::EMPTY, |all, held| all.union(&held.cpus))
    }

    /// What all but this place have.
    pub(super) fn beside(&self, place: &Place) -> CpuSet {
        let others = self.held.iter().filter(|(of, _)| *of != place);
        others.fold(CpuSet::EMPTY, |all, (_, held)| all.union(&held.cpus))
    }

    /// Reserves, or changes what is reserved, with as many of its CPUs and of those to `keep` as possible. False, and unchanged,
    /// where there is no room.
    pub(super) fn reserve(&mut self, machine: &Machine, place: &Place, count: usize, keep: &CpuSet) -> bool {
        let before = self.held.get(place);
        // What lost CPUs since is no reason to refuse its restart.
        if before.is_some_and(|held| held.asked == count && !held.cpus.is_empty()) {
            return true;
        }
        let keep = before.map_or(*keep, |held| held.cpus.union(keep));
        let Some(cpus) = machine.pick(&self.beside(place), &keep, count) else { return false };
        let began = before.is_some_and(|held| held.began);
        self.held.insert(place.clone(), Held { cpus, asked: count, began });
        true
    }

    /// Reserves exactly these CPUs, if they are what `count` asks for and nothing is in the way.
    pub(super) fn adopt(&mut self, machine: &Machine, place: &Place, count: usize, cpus: &CpuSet) {
        if !self.held.contains_key(place) && machine.pick(&self.all(), cpus, count).as_ref() == Some(cpus) {
            self.held.insert(place.clone(), Held { cpus: *cpus, asked: count, began: false });
        }
    }

    pub(super) fn begin(&mut self, place: &Place) {
        if let Some(held) = self.held.get_mut(place) {
            held.began = true;
        }
    }

    pub(super) fn release(&mut self, place: &Place) -> CpuSet {
        self.held.remove(place).map_or(CpuSet::EMPTY, |held| held.cpus)
    }

    pub(super) fn retain(&mut self, mut wanted: impl FnMut(&Place, &Held) -> bool) {
        self.held.retain(|place, held| wanted(place, held));
    }

    /// After CPUs have come or gone: what is lost is replaced where there is room, and something always stays shared.
    pub(super) fn refit(&mut self, machine: &Machine) {
        let usable = machine.usable();
        self.held.values_mut().for_each(|held| held.cpus = held.cpus.intersection(&usable));
        let places: Vec<Place> = self.held.keys().cloned().collect();
        for place in &places {
            let beside = self.beside(place);
            let Some(held) = self.held.get_mut(place) else { continue };
            let count = held.asked.min(machine.room(&beside));
            let more = machine.pick(&beside, &held.cpus, count);
            if let Some(cpus) = more.filter(|cpus| cpus.len() >= held.cpus.len()) {
                held.cpus = cpus;
            }
        }
        if machine.online.is_subset(&self.all())
            && let Some(most) = self.held.values_mut().max_by_key(|held| held.cpus.len())
            && let Some(cpu) = most.cpus.lowest()
        {
            most.cpus.remove(cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::Topology;

    fn cpus(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn place(sandbox: &str, name: &str) -> Place {
        (sandbox.to_owned(), name.to_owned())
    }

    fn machine(count: u32) -> Machine {
        let topology = Topology::synthetic(1, 1, count, 1);
        Machine { online: topology.all(), topology, reserved: CpuSet::EMPTY, whole_cores: false }
    }

    #[test]
    fn a_refusal_changes_nothing() {
        let mut reservations = Reservations::default();
        assert!(reservations.reserve(&machine(4), &place("a", "x"), 2, &CpuSet::EMPTY));
        let before = reservations.clone();
        assert!(!reservations.reserve(&machine(4), &place("b", "x"), 2, &CpuSet::EMPTY));
        assert!(!reservations.reserve(&machine(4), &place("a", "x"), 4, &CpuSet::EMPTY));
        assert_eq!(reservations, before);
    }

    #[test]
    fn a_lost_cpu_is_replaced_and_comes_back_only_if_it_must() {
        let mut machine = machine(4);
        let mut reservations = Reservations::default();
        let app = place("a", "app");
        reservations.reserve(&machine, &app, 2, &CpuSet::EMPTY);
        let mut after = |online: &str| {
            machine.online = cpus(online);
            reservations.refit(&machine);
            reservations.get(&app).unwrap().cpus.to_string()
        };
        assert_eq!(after("0-2"), "1-2", "3 is lost, 1 replaces it");
        assert_eq!(after("0,2"), "2", "0 is the last shared one");
        assert_eq!(after("2"), "", "and 2 is now");
        assert_eq!(after("0-3"), "2-3");
        assert_eq!(after("0-2"), "1-2");
        assert_eq!(after("0-3"), "1-2", "it has what it asked for");
    }

    #[test]
    fn only_what_fits_exactly_is_adopted() {
        let mut reservations = Reservations::default();
        reservations.adopt(&machine(4), &place("a", "x"), 2, &cpus("1-2"));
        reservations.adopt(&machine(4), &place("b", "x"), 1, &cpus("2"));
        reservations.adopt(&machine(4), &place("c", "x"), 1, &cpus("0,3"));
        let held: Vec<String> = reservations.iter().map(|((of, _), held)| format!("{of} {}", held.cpus)).collect();
        assert_eq!(held, ["a 1-2"]);
    }

    #[test]
    fn a_sandboxs_places_are_its_own() {
        let mut reservations = Reservations::default();
        for (sandbox, name) in [("a", "x"), ("a", "y"), ("ab", "x"), ("b", "x")] {
            assert!(reservations.reserve(&machine(8), &place(sandbox, name), 1, &CpuSet::EMPTY));
        }
        assert_eq!(reservations.of("a").map(|(name, _)| name).collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(reservations.cpus_of("a").len(), 2);
    }
}
