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
        cpus.push(Cpu { id, core, llc, node, socket });
    }
    Ok(Topology::new(cpus)?)
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
    // A cache of level 1 or 2 belongs to a core; a machine that shows no more does not tell its last level.
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
