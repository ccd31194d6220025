//! The machine's CPUs and the units that they share: core, last-level cache, memory node, socket.

use serde::{Deserialize, Serialize};

use crate::{CpuId, CpuSet, ModelError};

/// One logical CPU and the numbers of the units that it belongs to. Numbers are unique over the whole machine (a core
/// number names one core, not one per socket).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// The CPU's own number.
    pub id: CpuId,
    /// Physical core; CPUs with the same core are siblings.
    pub core: u32,
    /// Last-level cache domain.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
    /// Socket (package).
    pub socket: u32,
    /// How fast it is beside the machine's other CPUs, as Linux has it: the fastest have [`Cpu::FULL`].
    #[serde(default = "full", skip_serializing_if = "is_full")]
    pub capacity: u32,
}

impl Cpu {
    /// The capacity of the fastest CPUs of a machine.
    pub const FULL: u32 = 1024;
}

fn full() -> u32 {
    Cpu::FULL
}

fn is_full(capacity: &u32) -> bool {
    *capacity == Cpu::FULL
}

/// The machine's CPUs and the units that they form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Cpu>", into = "Vec<Cpu>")]
pub struct Topology {
    cpus: Vec<Cpu>,
    /// Sets by CPU number, so that look-ups on the hot path are one index.
    core_of: Vec<CpuSet>,
    siblings: Vec<Vec<CpuId>>,
    by_number: Vec<Option<u32>>,
    all: CpuSet,
    sockets: Vec<CpuSet>,
    llcs: Vec<CpuSet>,
    cores: Vec<CpuSet>,
    /// The fastest first.
    speeds: Vec<CpuSet>,
}

impl Topology {
    /// A topology of these CPUs, in any order.
    ///
    /// # Errors
    /// [`ModelError::Topology`] if there is no CPU, one twice, or one whose number is too high.
    pub fn new(mut cpus: Vec<Cpu>) -> Result<Topology, ModelError> {
        let bad = |why: String| Err(ModelError::Topology { why });
        cpus.sort_by_key(|cpu| cpu.id);
        let Some(last) = cpus.last() else { return bad("it has no CPU".into()) };
        if last.id.index() >= crate::MAX_CPUS {
            return bad(format!("CPU {} is above the highest supported number, {}", last.id, crate::MAX_CPUS - 1));
        }
        if let Some(pair) = cpus.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return bad(format!("CPU {} stands in it twice", pair[0].id));
        }
        let mut by_number = vec![None; last.id.index() + 1];
        let mut core_of = vec![CpuSet::EMPTY; last.id.index() + 1];
        let mut siblings = vec![Vec::new(); last.id.index() + 1];
        for (at, cpu) in cpus.iter().enumerate() {
            by_number[cpu.id.index()] = Some(at as u32);
        }
        let cores = units(&cpus, |cpu| cpu.core);
        for core in &cores {
            for cpu in core.iter() {
                core_of[cpu.index()] = *core;
                siblings[cpu.index()] = core.iter().filter(|&other| other != cpu).collect();
            }
        }
        Ok(Topology {
            core_of,
            siblings,
            by_number,
            all: cpus.iter().map(|cpu| cpu.id).collect(),
            sockets: units(&cpus, |cpu| cpu.socket),
            llcs: units(&cpus, |cpu| cpu.llc),
            cores,
            speeds: speeds(&cpus),
            cpus,
        })
    }

    /// A regular machine in one line, for tests and simulations: CPUs are numbered as Linux does on most machines,
    /// first one CPU of every core, then the second siblings. One memory node a socket.
    ///
    /// # Panics
    /// If a count is zero or there are more than [`crate::MAX_CPUS`] CPUs.
    #[must_use]
    pub fn synthetic(sockets: u32, llcs_per_socket: u32, cores_per_llc: u32, threads_per_core: u32) -> Topology {
        let cores = sockets * llcs_per_socket * cores_per_llc;
        let cpus = (0..cores * threads_per_core)
            .map(|number| {
                let core = number % cores;
                let llc = core / cores_per_llc;
                let socket = llc / llcs_per_socket;
                Cpu { id: CpuId(number), core, llc, node: socket, socket, capacity: Cpu::FULL }
            })
            .collect();
        Topology::new(cpus).expect("a synthetic machine has at least one CPU and no more than supported")
    }

    /// The CPUs in ascending order.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// One CPU's place, if it exists.
    #[must_use]
    pub fn cpu(&self, cpu: CpuId) -> Option<&Cpu> {
        let at = (*self.by_number.get(cpu.index())?)?;
        self.cpus.get(at as usize)
    }

    /// All CPUs.
    #[must_use]
    pub fn all(&self) -> CpuSet {
        self.all
    }

    /// One more than the highest CPU number: the length of per-CPU columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.by_number.len()
    }

    /// All CPUs of this CPU's core, itself included; empty if there is no such CPU.
    #[must_use]
    pub fn core_of(&self, cpu: CpuId) -> CpuSet {
        self.core_of.get(cpu.index()).copied().unwrap_or(CpuSet::EMPTY)
    }

    /// The other CPUs of this CPU's core.
    #[must_use]
    pub fn siblings_of(&self, cpu: CpuId) -> CpuSet {
        let mut siblings = self.core_of(cpu);
        siblings.remove(cpu);
        siblings
    }

    /// The same as a list, for loops on the hot path.
    #[must_use]
    pub fn siblings(&self, cpu: CpuId) -> &[CpuId] {
        self.siblings.get(cpu.index()).map_or(&[], Vec::as_slice)
    }

    /// The CPUs of each socket.
    #[must_use]
    pub fn sockets(&self) -> &[CpuSet] {
        &self.sockets
    }

    /// The CPUs of each last-level cache domain.
    #[must_use]
    pub fn llcs(&self) -> &[CpuSet] {
        &self.llcs
    }

    /// The CPUs of each core.
    #[must_use]
    pub fn cores(&self) -> &[CpuSet] {
        &self.cores
    }

    /// The CPUs of each speed, the fastest first: one set where all are alike. CPUs within a tenth of the fastest of their set
    /// count as alike.
    #[must_use]
    pub fn speeds(&self) -> &[CpuSet] {
        &self.speeds
    }

    /// The same machine, of which these CPUs have this capacity.
    #[must_use]
    pub fn with_capacity(mut self, cpus: &CpuSet, capacity: u32) -> Topology {
        self.cpus.iter_mut().filter(|cpu| cpus.contains(cpu.id)).for_each(|cpu| cpu.capacity = capacity);
        self.speeds = speeds(&self.cpus);
        self
    }

    /// Has some core more than one CPU?
    #[must_use]
    pub fn has_siblings(&self) -> bool {
        self.cores.len() < self.cpus.len()
    }
}

impl TryFrom<Vec<Cpu>> for Topology {
    type Error = ModelError;
    fn try_from(cpus: Vec<Cpu>) -> Result<Topology, ModelError> {
        Topology::new(cpus)
    }
}

impl From<Topology> for Vec<Cpu> {
    fn from(topology: Topology) -> Vec<Cpu> {
        topology.cpus
    }
}

/// The CPUs of each unit, in the order of the units' numbers.
fn units(cpus: &[Cpu], unit: impl Fn(&Cpu) -> u32) -> Vec<CpuSet> {
    let mut sets = std::collections::BTreeMap::<u32, CpuSet>::new();
    for cpu in cpus {
        sets.entry(unit(cpu)).or_default().insert(cpu.id);
    }
    sets.into_values().collect()
}

fn speeds(cpus: &[Cpu]) -> Vec<CpuSet> {
    let mut sorted: Vec<&Cpu> = cpus.iter().collect();
    sorted.sort_by_key(|cpu| std::cmp::Reverse(cpu.capacity));
    let mut sets: Vec<CpuSet> = Vec::new();
    let mut fastest = 0;
    for cpu in sorted {
        let is_alike = u64::from(cpu.capacity) * 10 >= u64::from(fastest) * 9;
        match sets.last_mut().filter(|_| is_alike) {
            Some(set) => set.insert(cpu.id),
            None => {
                fastest = cpu.capacity;
                sets.push(CpuSet::one(cpu.id));
            }
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synthetic_machine_is_numbered_as_linux_does() {
        let machine = Topology::synthetic(2, 1, 12, 2);
        assert_eq!(machine.all().len(), 48);
        assert_eq!(machine.core_of(CpuId(0)).to_string(), "0,24");
        assert_eq!(machine.siblings_of(CpuId(24)).to_string(), "0");
        assert_eq!(machine.sockets()[1].to_string(), "12-23,36-47");
        assert_eq!(machine.cores().len(), 24);
    }

    #[test]
    fn impossible_machines_are_refused() {
        let cpu = |number| Cpu { id: CpuId(number), core: 0, llc: 0, node: 0, socket: 0, capacity: Cpu::FULL };
        assert!(Topology::new(vec![]).is_err());
        assert!(Topology::new(vec![cpu(1), cpu(1)]).is_err());
        assert!(Topology::new(vec![cpu(5000)]).is_err());
    }

    #[test]
    fn holes_in_the_numbering_are_fine() {
        let cpu = |number| Cpu { id: CpuId(number), core: number, llc: 0, node: 0, socket: 0, capacity: Cpu::FULL };
        let machine = Topology::new(vec![cpu(7), cpu(2)]).unwrap();
        assert_eq!(machine.all().to_string(), "2,7");
        assert!(machine.cpu(CpuId(3)).is_none());
        assert!(machine.core_of(CpuId(3)).is_empty());
    }

    #[test]
    fn cpus_of_about_the_same_capacity_have_the_same_speed() {
        let alike = Topology::synthetic(1, 1, 4, 1);
        assert_eq!(alike.speeds(), [alike.all()]);
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        let machine = alike.with_capacity(&cpus("0-1"), 446).with_capacity(&cpus("2"), 980);
        assert_eq!(machine.speeds(), [cpus("2-3"), cpus("0-1")]);
        // Descending by a little each time is no single speed.
        let machine = machine.with_capacity(&cpus("1"), 900).with_capacity(&cpus("0"), 830);
        assert_eq!(machine.speeds(), [cpus("2-3"), cpus("0-1")]);
        let text = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<Topology>(&text).unwrap(), machine);
    }

    #[test]
    fn a_machine_whose_cpus_are_alike_is_written_as_before() {
        let text = serde_json::to_string(&Topology::synthetic(1, 1, 1, 1)).unwrap();
        assert_eq!(text, r#"[{"id":0,"core":0,"llc":0,"node":0,"socket":0}]"#);
        let machine: Topology = serde_json::from_str(&text).unwrap();
        assert_eq!(machine.cpus()[0].capacity, Cpu::FULL);
    }

    #[test]
    fn it_survives_json() {
        let machine = Topology::synthetic(1, 2, 3, 2);
        let text = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<Topology>(&text).unwrap(), machine);
    }
}
