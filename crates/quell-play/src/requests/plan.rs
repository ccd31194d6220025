//! Kinds of requests with numbers for names.

use std::collections::BTreeMap;

use quell_sim::WorkloadSpec;
use quell_sim::workload::Service;
use quell_sim::workload::graph::{RequestSpec, Step};

/// A set of stages that have ended and of signals that were given, one bit each: stages first, in their order.
pub type Flags = u64;

/// What threads do for a kind of request.
#[derive(Clone, Debug)]
pub struct Plan {
    pub first: usize,
    pub stages: Vec<Stage>,
    /// All pieces of work, in the order of stages and steps, as the simulator draws them.
    pub works: Vec<Service>,
    /// By barrier: how many meet there.
    pub barriers: Vec<u32>,
}

/// What one thread does.
#[derive(Clone, Debug)]
pub struct Stage {
    pub pool: usize,
    pub after: Flags,
    pub steps: Vec<Act>,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The piece of work of this number.
    Work(usize),
    /// The same while it holds this lock.
    Locked(usize, usize),
    Signal(Flags),
    Wait(Flags),
    /// The barrier of this number.
    Meet(usize),
}

/// A workload's pools: the name by which stages call each, and its number of threads.
pub fn pools(spec: &WorkloadSpec) -> Vec<(String, u32)> {
    let roles = spec.pool.iter().flat_map(BTreeMap::iter);
    let named: Vec<_> = roles.map(|(role, &threads)| (format!("{}.{role}", spec.name), threads)).collect();
    if named.is_empty() { vec![(spec.name.clone(), spec.threads)] } else { named }
}

impl Plan {
    /// Of a request that was checked: each name stands for something.
    pub fn new(request: &RequestSpec, pools: &[(String, u32)], locks: &[&str]) -> Plan {
        let signals = request.stages.iter().flat_map(|stage| &stage.steps).filter_map(|step| match step {
            Step::Signal(name) => Some(name.as_str()),
            _ => None,
        });
        let flags: Vec<&str> = request.stages.iter().map(|stage| stage.name.as_str()).chain(signals).collect();
        let bit = |name: &str| flags.iter().position(|flag| *flag == name).map_or(0, |flag| 1 << flag);
        let mask = |names: &[String]| names.iter().fold(0, |mask, name| mask | bit(name));
        let mut plan = Plan { first: 0, stages: Vec::new(), works: Vec::new(), barriers: Vec::new() };
        let mut barriers: Vec<&str> = Vec::new();
        for stage in &request.stages {
            let mut steps = Vec::new();
            for step in &stage.steps {
                let mut piece = |work: &Service| {
                    plan.works.push(work.clone());
                    plan.works.len() - 1
                };
                steps.push(match step {
                    Step::Work(work) | Step::Gpu(work, _) => Act::Work(piece(work)),
                    Step::Locked(work, name) => {
                        Act::Locked(piece(work), locks.iter().position(|lock| lock == name).unwrap_or_default())
                    }
                    Step::Signal(name) => Act::Signal(bit(name)),
                    Step::Wait(names) => Act::Wait(mask(names)),
                    Step::Barrier(name) => {
                        let known = barriers.iter().position(|barrier| barrier == name);
                        let barrier = known.unwrap_or_else(|| {
                            barriers.push(name);
                            plan.barriers.push(0);
                            barriers.len() - 1
                        });
                        plan.barriers[barrier] += 1;
                        Act::Meet(barrier)
                    }
                });
            }
            let pool = pools.iter().position(|(name, _)| *name == stage.on).unwrap_or_default();
            plan.stages.push(Stage { pool, after: mask(&stage.after), steps });
        }
        plan.first = plan.stages.iter().position(|stage| stage.after == 0).unwrap_or_default();
        plan
    }
}
