//! What is balanced against what: a machine's domains, as its topology and the partitions of its CPUs make them.

use quell_model::{CpuSet, Topology};

/// CPUs that are balanced against each other, in parts.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub span: CpuSet,
    pub parts: Vec<CpuSet>,
    /// Do all of it share a core?
    pub is_core: bool,
    pub interval: u64,
    /// Wake-ups look at this many of its CPUs (`nr_idle_scan`).
    pub scans: u32,
}

/// The machine's domains, and those of each CPU from the smallest to the largest.
#[derive(Clone, Debug)]
pub(crate) struct Domains {
    pub all: Vec<Domain>,
    pub by_cpu: Vec<Vec<usize>>,
    caches: Vec<CpuSet>,
    /// When idle CPUs' balancing is done next.
    pub idle_at: u64,
}

impl Domains {
    /// The domains within each of these sets of CPUs, which do not overlap; elsewhere nothing is balanced.
    pub fn of(topology: &Topology, balanced: &[CpuSet]) -> Domains {
        let units = [topology.cores(), topology.llcs(), topology.sockets(), &[topology.all()]];
        let mut all: Vec<Domain> = Vec::new();
        for (level, spans) in units.iter().enumerate() {
            for (within, span) in balanced.iter().flat_map(|within| spans.iter().map(move |span| (within, span))) {
                let span = span.intersection(within);
                let parts: Vec<CpuSet> = match level {
                    0 => span.iter().map(CpuSet::one).collect(),
                    _ => units[level - 1].iter().map(|part| part.intersection(&span)).collect(),
                };
                let parts: Vec<CpuSet> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                if parts.len() > 1 {
                    let interval = span.len() as u64 * 1_000_000;
                    all.push(Domain { span, parts, is_core: level == 0, interval, scans: 0 });
                }
            }
        }
        let of_cpu = |cpu: &quell_model::Cpu| (0..all.len()).filter(|&at| all[at].span.contains(cpu.id)).collect();
        let by_cpu = topology.cpus().iter().map(of_cpu).collect();
        let cache = |cpu: &quell_model::Cpu| {
            let within = balanced.iter().find(|within| within.contains(cpu.id))?;
            topology.llcs().iter().find(|llc| llc.contains(cpu.id)).map(|llc| llc.intersection(within))
        };
        let caches = topology.cpus().iter().map(|cpu| cache(cpu).unwrap_or(CpuSet::one(cpu.id))).collect();
        Domains { all, by_cpu, caches, idle_at: 0 }
    }

    pub fn of_cpu(&self, cpu: usize) -> &[usize] {
        &self.by_cpu[cpu]
    }

    /// The CPUs that share this one's last-level cache.
    pub fn cache_of(&self, cpu: usize) -> &CpuSet {
        &self.caches[cpu]
    }
}
