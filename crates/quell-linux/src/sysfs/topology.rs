//! CPUs, cores, last-level caches, memory nodes and sockets (`/sys/devices/system`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use quell_model::{Cpu, CpuId, CpuSet, Topology};

use crate::{LinuxError, file};

/// The CPUs that are online (`cpu/online`). Where the file is missing: those with a directory, else CPU 0.
///
/// # Errors
/// If the file is there but cannot be read or holds no CPU list.
pub fn online(sys: &Path) -> Result<CpuSet, LinuxError> {
    let base = sys.join("devices/system/cpu");
    if let Some(online) = file::parse::<CpuSet>(&base.join("online"), "a CPU list")?.filter(|set| !set.is_empty()) {
        return Ok(online);
    }
    let found = numbered(&base, "cpu").map(CpuId).collect::<CpuSet>();
    Ok(if found.is_empty() { CpuSet::one(CpuId(0)) } else { found })
}

/// The CPUs that may ever be online (`cpu/possible`). Where the file is missing: those that are.
///
/// # Errors
/// If a file is there but cannot be read or holds no CPU list.
pub fn possible(sys: &Path) -> Result<CpuSet, LinuxError> {
    let possible = file::parse::<CpuSet>(&sys.join("devices/system/cpu/possible"), "a CPU list")?;
    possible.filter(|set| !set.is_empty()).map_or_else(|| online(sys), Ok)
}

/// The CPUs from which the kernel keeps threads that do not ask for them (`cpu/isolated`, from `isolcpus=`).
///
/// # Errors
/// If the file is there but cannot be read or holds no CPU list.
pub fn isolated(sys: &Path) -> Result<CpuSet, LinuxError> {
    Ok(file::parse::<CpuSet>(&sys.join("devices/system/cpu/isolated"), "a CPU list")?.unwrap_or_default())
}

/// The CPUs without a tick while they run one thread (`cpu/nohz_full`, from `nohz_full=`).
///
/// # Errors
/// If the file is there but cannot be read.
pub fn without_tick(sys: &Path) -> Result<CpuSet, LinuxError> {
    let text = file::read(&sys.join("devices/system/cpu/nohz_full"))?.unwrap_or_default();
    // "(null)" on a kernel that was started without.
    Ok(text.parse().unwrap_or_default())
}

/// Are a CPU's caches described?
#[must_use]
pub fn has_caches(sys: &Path, cpu: CpuId) -> bool {
    numbered(&sys.join(format!("devices/system/cpu/cpu{cpu}/cache")), "index").next().is_some()
}

/// The same machine with the CPUs that came online since: what was known before keeps its numbers, whether it is online or not.
///
/// # Errors
/// As [`topology`].
pub fn grown(sys: &Path, before: &Topology) -> Result<Topology, LinuxError> {
    let now = topology(sys)?;
    let known = before.all();
    let mut cpus: Vec<Cpu> = before.cpus().to_vec();
    let mut next = [core, llc, socket].map(|of: fn(&Cpu) -> u32| before.cpus().iter().map(of).max());
    // Numbers that new units of this reading got, by their number in it.
    let mut fresh: [BTreeMap<u32, u32>; 3] = Default::default();
    for cpu in now.cpus().iter().filter(|cpu| !known.contains(cpu.id)) {
        let mut number = |unit: usize, of: fn(&Cpu) -> u32| {
            // A unit is the one that a CPU of before has that is in it.
            let mate = now.cpus().iter().find(|other| of(other) == of(cpu) && known.contains(other.id));
            if let Some(place) = mate.and_then(|mate| before.cpu(mate.id)) {
                return of(place);
            }
            let next = &mut next[unit];
            *fresh[unit].entry(of(cpu)).or_insert_with(|| {
                *next = Some(next.map_or(0, |last| last + 1));
                next.unwrap_or(0)
            })
        };
        let (core, llc, socket) = (number(0, core), number(1, llc), number(2, socket));
        cpus.push(Cpu { core, llc, socket, ..*cpu });
    }
    Ok(Topology::new(cpus)?)
}

/// The online CPUs and the units they form. If a file is missing, the machine is taken as the simplest one: every CPU
/// its own core, one cache, one node, one socket. An offline CPU has no files on its place and is left out.
///
/// # Errors
/// If a file exists but cannot be read or holds something else than a number or a CPU list.
pub fn topology(sys: &Path) -> Result<Topology, LinuxError> {
    let base = sys.join("devices/system/cpu");
    let nodes = nodes(sys)?;
    let mut units = Units::default();
    let mut cpus = Vec::new();
    for id in online(sys)?.iter() {
        let directory = base.join(format!("cpu{id}"));
        let socket = number(&directory.join("topology/physical_package_id"))?.unwrap_or(0);
        let core = match siblings(&directory)? {
            Some(siblings) => units.number("core", &siblings.to_string()),
            None => units.number("core", &format!("cpu {id}")),
        };
        let llc = match last_level_cache(&directory)? {
            Some(shared) => units.number("llc", &shared.to_string()),
            None => units.number("llc", &format!("socket {socket}")),
        };
        let node = nodes.iter().find(|(_, cpus)| cpus.contains(id)).map_or(0, |(node, _)| *node);
        let socket = units.number("socket", &socket.to_string());
        // On machines whose CPUs differ, most of them ARM's; the fastest has 1024.
        let capacity = number(&directory.join("cpu_capacity"))?.unwrap_or(Cpu::FULL);
        cpus.push(Cpu { id, core, llc, node, socket, capacity });
    }
    Ok(Topology::new(cpus)?)
}

fn core(cpu: &Cpu) -> u32 {
    cpu.core
}

fn llc(cpu: &Cpu) -> u32 {
    cpu.llc
}

fn socket(cpu: &Cpu) -> u32 {
    cpu.socket
}

/// Numbers units in the order in which they are met, so that numbers are unique over the whole machine (the kernel's
/// core numbers are unique only within a socket).
#[derive(Default)]
struct Units {
    numbers: BTreeMap<(&'static str, String), u32>,
    next: BTreeMap<&'static str, u32>,
}

impl Units {
    fn number(&mut self, sort: &'static str, name: &str) -> u32 {
        *self.numbers.entry((sort, name.to_owned())).or_insert_with(|| {
            let next = self.next.entry(sort).or_insert(0);
            *next += 1;
            *next - 1
        })
    }
}

fn siblings(cpu: &Path) -> Result<Option<CpuSet>, LinuxError> {
    // The first name is from kernel 5.3 on, the second is its older one.
    for name in ["topology/core_cpus_list", "topology/thread_siblings_list"] {
        if let Some(set) = file::parse::<CpuSet>(&cpu.join(name), "a CPU list")? {
            return Ok(Some(set));
        }
    }
    Ok(None)
}

/// The CPUs that share this CPU's cache of the highest level.
fn last_level_cache(cpu: &Path) -> Result<Option<CpuSet>, LinuxError> {
    let cache = cpu.join("cache");
    let mut best: Option<(u32, CpuSet)> = None;
    for index in numbered(&cache, "index") {
        let directory = cache.join(format!("index{index}"));
        let level = number(&directory.join("level"))?;
        let shared = file::parse::<CpuSet>(&directory.join("shared_cpu_list"), "a CPU list")?;
        if let (Some(level), Some(shared)) = (level, shared)
            && best.is_none_or(|(highest, _)| level > highest)
        {
            best = Some((level, shared));
        }
    }
    // A cache of level 1 or 2 belongs to a core; a machine that shows no more does not report its last level.
    Ok(best.filter(|(level, _)| *level >= 3).map(|(_, shared)| shared))
}

fn nodes(sys: &Path) -> Result<Vec<(u32, CpuSet)>, LinuxError> {
    let base = sys.join("devices/system/node");
    let mut nodes = Vec::new();
    for node in numbered(&base, "node") {
        if let Some(cpus) = file::parse(&base.join(format!("node{node}/cpulist")), "a CPU list")? {
            nodes.push((node, cpus));
        }
    }
    Ok(nodes)
}

/// A unit's number; a missing file and the kernel's −1 (*not known*) are None.
fn number(path: &Path) -> Result<Option<u32>, LinuxError> {
    Ok(file::parse::<i64>(path, "a number")?.and_then(|number| u32::try_from(number).ok()))
}

/// The numbers N of the entries `<prefix>N` in a directory, ascending.
fn numbered(directory: &Path, prefix: &str) -> impl Iterator<Item = u32> {
    let mut numbers: Vec<u32> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix(prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeTree;

    #[test]
    fn a_cpu_that_comes_joins_its_units_and_the_others_keep_their_numbers() {
        let all = Topology::synthetic(2, 1, 2, 2);
        let tree = FakeTree::new(&all);
        let sys = tree.roots().sys;
        for gone in [1, 5, 2] {
            let rest: CpuSet = all.all().iter().filter(|cpu| cpu.0 != gone).collect();
            tree.online_are(&all, &rest);
            let before = topology(&sys).unwrap();
            assert_eq!(before.all(), rest);
            tree.online_are(&all, &all.all());
            let after = grown(&sys, &before).unwrap();
            assert_eq!(after.all(), all.all());
            assert!(before.cpus().iter().all(|cpu| after.cpu(cpu.id) == Some(cpu)), "{gone}");
            for units in [Topology::cores, Topology::llcs, Topology::sockets] {
                let sorted = |of: &Topology| {
                    let mut sets: Vec<String> = units(of).iter().map(CpuSet::to_string).collect();
                    sets.sort();
                    sets
                };
                assert_eq!(sorted(&after), sorted(&all), "{gone}");
            }
        }
    }

    #[test]
    fn cpus_of_different_capacity_are_known_also_those_that_come() {
        let little: CpuSet = "0-1".parse().unwrap();
        let all = Topology::synthetic(1, 1, 4, 1).with_capacity(&little, 446);
        let tree = FakeTree::new(&all);
        let sys = tree.roots().sys;
        assert_eq!(topology(&sys).unwrap(), all);
        tree.online_are(&all, &"0,2-3".parse().unwrap());
        let before = topology(&sys).unwrap();
        tree.online_are(&all, &all.all());
        assert_eq!(grown(&sys, &before).unwrap().speeds(), all.speeds());
    }

    #[test]
    fn a_core_of_its_own_gets_a_number_of_its_own() {
        let all = Topology::synthetic(1, 1, 4, 1);
        let tree = FakeTree::new(&all);
        let sys = tree.roots().sys;
        tree.online_are(&all, &"0-1,3".parse().unwrap());
        let before = topology(&sys).unwrap();
        tree.online_are(&all, &all.all());
        let after = grown(&sys, &before).unwrap();
        assert_eq!(after.cores().len(), 4);
        assert_eq!(after.llcs().len(), 1);
    }
}
