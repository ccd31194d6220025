//! The pieces of work whose instructions are counted, and their bounds.

/// A piece of work: an agent with a policy beside workloads.
pub struct Work {
    pub name: &'static str,
    pub policy: &'static str,
    pub cpus: u32,
    pub memory_mib: u64,
    /// The workloads: latency-critical ones and others, and the threads of each.
    pub critical: usize,
    pub others: usize,
    pub threads: usize,
    pub counted: Counted,
    /// The number of units in what is counted …
    pub units: u64,
    /// … of this name.
    pub unit: &'static str,
    /// Instructions of one unit, at most.
    pub bound: u64,
    /// What they are to come down to.
    pub goal: u64,
}

/// The CPUs whose instructions count, and from when to when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// That of the agent, which has it for itself, for `ms` after it has run for `after` (ms): then it has met all
    /// workloads, and its first plans are carried out.
    AgentsCpu { after: u64, ms: u64 },
    /// All of them, from the agent's start until Quell's scheduler is attached.
    AllCpus,
}

const EDGEISO: Work = Work {
    name: "edgeiso-6",
    policy: "edgeiso",
    cpus: 6,
    memory_mib: 1024,
    critical: 2,
    others: 2,
    threads: 2,
    counted: Counted::AgentsCpu { after: 3_000, ms: 2_000 },
    units: 10,
    unit: "a look",
    bound: 780_000,
    goal: 600_000,
};

pub const WORK: &[Work] = &[
    EDGEISO,
    Work {
        name: "dasec-4",
        policy: "dasec",
        cpus: 4,
        others: 0,
        units: 25,
        unit: "a period",
        bound: 580_000,
        goal: 150_000,
        ..EDGEISO
    },
    Work {
        name: "guard-1000",
        policy: "guard",
        cpus: 4,
        memory_mib: 4096,
        critical: 20,
        others: 980,
        threads: 10,
        counted: Counted::AgentsCpu { after: 20_000, ms: 2_000 },
        units: 100,
        unit: "a turn",
        bound: 1_660_000,
        goal: 350_000,
    },
    Work {
        name: "attach",
        policy: "caladan",
        cpus: 4,
        counted: Counted::AllCpus,
        units: 1,
        unit: "from the start until attached",
        bound: 3_000_000_000,
        goal: 3_000_000_000,
        ..EDGEISO
    },
];
