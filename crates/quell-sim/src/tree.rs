//! The kernel's tree of groups: with a queue for each group and CPU, and what stands in them. Numbers name them; everything lies in
//! flat lists.

use std::collections::VecDeque;
use std::f64::consts::LN_2;

use quell_model::{CpuSet, Nanos, Warp};
use serde::{Deserialize, Serialize};

use crate::ids::{GroupId, TaskId};
use crate::math;
use crate::timers::TimerId;
use crate::weight;

/// The past counts half after this time, ns.
const HALF_LIFE: f64 = (32u64 << 20) as f64;

/// `cpuset.cpus.partition`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Partition {
    /// Its CPUs are others' too.
    #[default]
    Member,
    /// Its CPUs are its own, and threads are balanced among them.
    Root,
    /// Its CPUs are its own, and nothing is balanced there: a thread stays where it is put.
    Isolated,
}

/// What a queue's load was lately.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Average {
    pub load: f64,
    at: u64,
    /// What the group's sum has of it.
    pub contribution: u64,
    pub contributed_at: u64,
    /// Load of threads that have ended, which is still in it.
    pub removed: f64,
}

impl Average {
    /// Ended threads' load leaves it.
    pub fn settle(&mut self) {
        self.load = (self.load - std::mem::take(&mut self.removed)).max(0.0);
    }

    /// The load was this from the last look until now.
    pub fn follow(&mut self, load: u64, now: u64) {
        let span = now - std::mem::replace(&mut self.at, now);
        if span > 0 {
            let load = load as f64;
            self.load = load + (self.load - load) * math::exp(-LN_2 * span as f64 / HALF_LIFE);
        }
    }
}

/// A warp in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Warped {
    pub warp: Warp,
    /// CPU time that it has run warped since it was placed last or its rest ended, ns.
    pub ran: u64,
    pub rests_until: u64,
}

impl Warped {
    /// It ran for this long up to now.
    pub fn ran(&mut self, span: u64, now: u64) {
        if now < self.rests_until || self.warp.limit == Nanos::ZERO {
            return;
        }
        self.ran += span;
        if self.ran >= self.warp.limit.0 {
            (self.ran, self.rests_until) = (0, now + self.warp.rest.0);
        }
    }
}

/// A node of the cgroup tree.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub parent: Option<GroupId>,
    pub depth: u32,
    /// Weight of the whole group among its siblings.
    pub shares: u64,
    pub idle: bool,
    pub cpus: Option<CpuSet>,
    pub partition: Partition,
    /// Its queue on CPU c is `queues + c`, its entity there `entities + c`; the root has no entities.
    pub queues: usize,
    /// Sum of the weights in all its queues.
    pub load: u64,
    /// Sum of its queues' decaying averages.
    pub average: u64,
    pub bandwidth: Option<Bandwidth>,
}

/// cpu.max.
#[derive(Clone, Debug)]
pub(crate) struct Bandwidth {
    pub quota: u64,
    pub period: u64,
    pub burst: u64,
    /// Left of this period's quota.
    pub pool: u64,
    pub timer: TimerId,
    pub slack: TimerId,
    pub is_running: bool,
    pub idle_period: bool,
    pub slack_is_set: bool,
    /// Queues that wait for runtime, first come first.
    pub throttled: VecDeque<usize>,
    pub periods_throttled: u64,
    pub throttled_in_period: bool,
}

/// What is queued by weight: a thread, or a group's part on one CPU.
#[derive(Clone, Debug)]
pub(crate) struct Entity {
    pub weight: u64,
    pub vruntime: i64,
    pub deadline: i64,
    /// Runs until this virtual time before another may take its place.
    pub protected_until: i64,
    /// What it was behind (+) or ahead (−) of its queue when it left it.
    pub lag: i64,
    pub slice: u64,
    pub has_own_slice: bool,
    /// BVT's borrowed time.
    pub warp: Option<Box<Warped>>,
    pub run_time: u64,
    pub picked_at: u64,
    pub queue: usize,
    pub queued: bool,
    /// Asleep, and still queued until it is no longer ahead of its queue.
    pub delayed: bool,
    pub deadline_is_relative: bool,
    pub idle: bool,
    pub depth: u32,
    pub content: Content,
}

/// What an entity stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Task(TaskId),
    Queue(usize),
}

/// How an entity comes into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It was just made.
    New,
    /// It slept.
    WakeUp,
    /// It was runnable all the time: moved from another CPU, or changed.
    Moved,
}

/// How an entity leaves its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// It goes to sleep. With EEVDF it may have to wait a debt off first.
    Asleep,
    /// It ends, and pays no debt; its groups may have to.
    Ended,
    /// Its group has no quota left.
    Throttled,
    /// It goes on elsewhere or is changed.
    Moved,
}

/// The entities of one group on one CPU, the running one included.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub cpu: usize,
    pub group: GroupId,
    /// Stands for this queue one level up.
    pub entity: Option<usize>,
    pub members: Vec<usize>,
    pub current: Option<usize>,
    /// Sum of the members' weights.
    pub load: u64,
    pub average: Average,
    /// Runnable threads in it and below.
    pub tasks: u32,
    /// Those of them that run only when nothing else does.
    pub idle_tasks: u32,
    /// Virtual time below which no thread is; where an empty queue begins.
    pub zero: i64,
    /// Left of the runtime that this CPU took from the quota; negative: owed.
    pub runtime: i64,
    pub throttled: bool,
}

impl Entity {
    pub fn new(content: Content, queue: usize, depth: u32) -> Entity {
        Entity {
            weight: weight::NICE_0,
            vruntime: 0,
            deadline: 0,
            protected_until: 0,
            lag: 0,
            slice: 0,
            has_own_slice: false,
            warp: None,
            run_time: 0,
            picked_at: 0,
            queue,
            queued: false,
            delayed: false,
            deadline_is_relative: false,
            idle: false,
            depth,
            content,
        }
    }
}

impl Queue {
    pub fn new(cpu: usize, group: GroupId, entity: Option<usize>) -> Queue {
        Queue {
            cpu,
            group,
            entity,
            members: Vec::new(),
            current: None,
            load: 0,
            average: Average::default(),
            tasks: 0,
            idle_tasks: 0,
            zero: 0,
            runtime: 0,
            throttled: false,
        }
    }
}

/// The sums behind a queue's virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mean {
    base: i64,
    sum: i64,
    pub load: i64,
}

impl Mean {
    /// Is somebody with this virtual run time not ahead of the queue?
    pub fn is_eligible(&self, vruntime: i64) -> bool {
        self.sum >= (vruntime - self.base).saturating_mul(self.load)
    }

    /// V, rounded down.
    pub fn now(&self) -> i64 {
        if self.load == 0 { self.base } else { self.base + self.sum.div_euclid(self.load) }
    }
}

/// The tree of groups, with a queue for each group and CPU, and what stands in them.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub groups: Vec<Group>,
    /// The first ones are the root's, by CPU.
    pub queues: Vec<Queue>,
    pub entities: Vec<Entity>,
    /// Groups whose CPUs are their own.
    pub partitions: Vec<GroupId>,
}

impl Tree {
    /// The root alone, on this many CPUs.
    pub fn new(cpus: usize) -> Tree {
        let root = Group {
            parent: None,
            depth: 0,
            shares: weight::NICE_0,
            idle: false,
            cpus: None,
            partition: Partition::Member,
            queues: 0,
            load: 0,
            average: 0,
            bandwidth: None,
        };
        let queues = (0..cpus).map(|cpu| Queue::new(cpu, GroupId::ROOT, None)).collect();
        Tree { groups: vec![root], queues, entities: Vec::new(), partitions: Vec::new() }
    }

    /// A queue's virtual time, over all its members.
    pub fn mean(&self, queue: usize) -> Mean {
        let queue = &self.queues[queue];
        let Some(&first) = queue.members.first() else { return Mean { base: queue.zero, sum: 0, load: 0 } };
        let base = self.entities[first].vruntime;
        let (mut sum, mut load) = (0i64, 0i64);
        for &member in &queue.members {
            let entity = &self.entities[member];
            let weight = (entity.weight >> weight::SCALE) as i64;
            sum = sum.saturating_add((entity.vruntime - base).saturating_mul(weight));
            load += weight;
        }
        Mean { base, sum, load }
    }

    /// Is a thread's entity, or else a group's from this queue up, asleep and still queued?
    pub fn is_delayed(&self, entity: usize, queue: usize) -> bool {
        if self.entities[entity].queued {
            return self.entities[entity].delayed;
        }
        let mut at = self.queues[queue].entity;
        while let Some(entity) = at {
            let seen = &self.entities[entity];
            if seen.queued {
                return seen.delayed;
            }
            at = self.queues[seen.queue].entity;
        }
        false
    }
}
