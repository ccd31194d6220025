//! The simulated kernel: threads on CPUs, by the rules of Linux.
//!
//! `state` has the data. `class` has the scheduling classes in their order. `dispatch` accounts what ran and switches threads, `wake` brings threads to CPUs and takes
//! them away, `wakers` counts who woke whom, `fair` is EEVDF and CFS over groups, `bandwidth` is cpu.max, `realtime` and
//! `deadline` are the classes above, `throttle` limits the real-time class, `server` is the deferrable servers between,
//! `balance` moves waiting threads, `partition` splits the CPUs, `grant` is Quell's own class where CPUs belong to
//! workloads. `guest` is what differs where the CPUs are threads of a host, `phase` says what runs to who slows it down.

mod balance;
mod bandwidth;
mod class;
mod deadline;
mod dispatch;
mod fair;
mod grant;
mod groups;
mod guest;
mod partition;
mod phase;
mod place;
mod realtime;
mod server;
mod state;
mod throttle;
mod trace;
mod wake;
mod wakers;

use std::sync::Arc;

use quell_model::{CpuId, CpuSet, Event, SchedClass, Topology};

pub use crate::config::{Costs, FairScheduler, Interrupts, KernelConfig, Loads, RealTimeLimit};
pub use crate::ids::{GroupId, TaskId};
pub use crate::trace::Stretch;
pub(crate) use grant::Grants;
use guest::Levels;
pub use partition::Partition;
pub use server::ServerSpec;
pub(crate) use state::{ENDLESS, FULL_SPEED, PhaseId, Timer};

use crate::domains::Domains;
use crate::timers::Timers;
use state::{Budget, Cpu, Entity, Group, Queue, State, Task};

/// What the kernel has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Kernel events: wake-ups, switches, completions of a piece of work, and ticks on busy CPUs.
    pub events: u64,
    /// Threads that became runnable.
    pub wake_ups: u64,
    /// Times a CPU began to run another thread.
    pub switches: u64,
    /// Times a thread began to run on another CPU than before.
    pub migrations: u64,
    /// Threads that the load balancer moved.
    pub balanced: u64,
}

/// The kernel and its machine.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) config: KernelConfig,
    pub(crate) topology: Arc<Topology>,
    pub(crate) now: u64,
    pub(crate) timers: Timers<Timer>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) groups: Vec<Group>,
    /// The first ones are the root's, by CPU.
    pub(crate) queues: Vec<Queue>,
    pub(crate) entities: Vec<Entity>,
    pub(crate) grants: Grants,
    pub(crate) online: CpuSet,
    /// CPUs where nothing is runnable.
    idle: CpuSet,
    /// CPUs on all of whose core nothing is runnable.
    idle_cores: CpuSet,
    /// CPUs where only SCHED_IDLE threads are runnable.
    idle_class: CpuSet,
    /// CPUs where some thread waits.
    crowded: CpuSet,
    /// CPUs where some real-time or deadline thread waits.
    urgent: CpuSet,
    pending: Vec<usize>,
    domains: Domains,
    /// Groups whose CPUs are their own.
    partitions: Vec<GroupId>,
    /// When averages of loads on idle CPUs are looked at next.
    fades_at: u64,
    base_slice: u64,
    latency: u64,
    min_granularity: u64,
    wakeup_granularity: u64,
    real_time_period: throttle::Period,
    pub(crate) counters: Counters,
    pub(crate) levels: Levels,
    pub(crate) phases: phase::Changes,
    /// For the host: what a policy may want to hear of.
    pub(crate) happened: Vec<Event>,
    wakers: crate::wakers::Wakers,
    /// Threads from under which a granted CPU was taken, for the workloads to hear of.
    pub(crate) preempted: Vec<TaskId>,
    /// Who ran where and when, if anybody asked.
    trace: Option<Box<crate::trace::Trace>>,
}

impl Kernel {
    /// A kernel that has just booted on this machine.
    ///
    /// # Panics
    /// If the CPUs' numbers have holes.
    #[must_use]
    pub fn new(topology: Arc<Topology>, config: KernelConfig) -> Kernel {
        let count = topology.columns();
        assert_eq!(count, topology.cpus().len(), "the simulated machine's CPUs are numbered without holes");
        let mut timers = Timers::new();
        let domains = Domains::of(&topology, &[topology.all()]);
        let cpus = (0..count).map(|cpu| new_cpu(cpu, &mut timers, domains.of_cpu(cpu).len())).collect();
        let root = Group {
            parent: None,
            depth: 0,
            shares: crate::weight::NICE_0,
            idle: false,
            cpus: None,
            partition: Partition::Member,
            queues: 0,
            load: 0,
            average: 0,
            bandwidth: None,
        };
        Kernel {
            now: 0,
            cpus,
            tasks: Vec::new(),
            groups: vec![root],
            queues: (0..count).map(|cpu| Queue::new(cpu, GroupId::ROOT, None)).collect(),
            entities: Vec::new(),
            grants: Grants::new(count),
            online: topology.all(),
            idle: topology.all(),
            idle_cores: topology.all(),
            idle_class: CpuSet::EMPTY,
            crowded: CpuSet::EMPTY,
            urgent: CpuSet::EMPTY,
            pending: Vec::new(),
            domains,
            partitions: Vec::new(),
            fades_at: 0,
            base_slice: config.base_slice_of(count),
            latency: config.latency_of(count),
            min_granularity: config.min_granularity_of(count),
            wakeup_granularity: config.wakeup_granularity_of(count),
            real_time_period: throttle::Period::new(timers.add(Timer::RealTimePeriod)),
            counters: Counters::default(),
            levels: Levels::default(),
            phases: phase::Changes::default(),
            happened: Vec::new(),
            wakers: crate::wakers::Wakers::default(),
            preempted: Vec::new(),
            trace: None,
            timers,
            topology,
            config,
        }
    }

    /// A new thread, asleep and without work, in a group and of a workload.
    pub fn spawn(&mut self, group: GroupId, workload: u32, class: SchedClass) -> TaskId {
        let id = TaskId(self.tasks.len() as u32);
        let entity = self.entities.len();
        let depth = self.groups[group.0 as usize].depth;
        let queue = self.groups[group.0 as usize].queues;
        self.entities.push(Entity::new(state::Content::Task(id), queue, depth));
        let timer = self.timers.add(Timer::Task(id.0));
        self.tasks.push(Task {
            state: State::Sleeping,
            stopped: false,
            ended: false,
            queued: false,
            class: SchedClass::NORMAL,
            cpu: usize::MAX,
            affinity: None,
            allowed: self.online,
            group,
            workload,
            served: None,
            entity,
            left: 0,
            run_time: 0,
            run_delay: 0,
            preemptions: 0,
            late_starts: 0,
            runnable_since: 0,
            ran_at: 0,
            ran_on: usize::MAX,
            turn_began: 0,
            phase: PhaseId::default(),
            request_began: None,
            budget: Budget::default(),
            timer,
        });
        self.set_class(id, class);
        self.refresh_allowed(id);
        id
    }

    /// The time, ns.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// CPU time that a thread has used up to now, ns.
    #[must_use]
    pub fn run_time(&self, task: TaskId) -> u64 {
        let seen = &self.tasks[task.0 as usize];
        let running = (self.cpus.get(seen.cpu)).filter(|cpu| cpu.current == Some(task) && !cpu.away);
        seen.run_time + running.map_or(0, |cpu| self.now - cpu.accounted)
    }

    /// Time that a thread has waited for a CPU up to now, ns.
    #[must_use]
    pub fn run_delay(&self, task: TaskId) -> u64 {
        let seen = &self.tasks[task.0 as usize];
        seen.run_delay + self.waits_since(task).map_or(0, |since| self.now - since)
    }

    /// Does the thread run or wait for a CPU?
    pub(crate) fn is_runnable(&self, task: TaskId) -> bool {
        self.task(task).state == State::Runnable
    }

    /// Since when a thread has waited for a CPU, if it does.
    pub(crate) fn waits_since(&self, task: TaskId) -> Option<u64> {
        let seen = self.task(task);
        let waits = seen.state == State::Runnable && !seen.stopped && !self.is_running(task);
        waits.then_some(seen.runnable_since)
    }

    /// Does the thread run at the moment?
    #[must_use]
    pub fn is_running(&self, task: TaskId) -> bool {
        let cpu = self.tasks[task.0 as usize].cpu;
        self.cpus.get(cpu).is_some_and(|cpu| cpu.current == Some(task))
    }

    /// Who runs on a CPU.
    #[must_use]
    pub fn running_on(&self, cpu: CpuId) -> Option<TaskId> {
        self.cpus.get(cpu.index())?.current
    }

    /// CPUs where nothing is runnable.
    #[must_use]
    pub fn idle(&self) -> CpuSet {
        self.idle
    }

    /// What the kernel has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Time that all CPUs have been busy up to now, ns.
    #[must_use]
    pub fn busy_time(&self) -> u64 {
        let of =
            |cpu: &Cpu| cpu.busy_time + if cpu.current.is_some() && !cpu.away { self.now - cpu.accounted } else { 0 };
        self.cpus.iter().map(of).sum()
    }

    /// A CPU runs at this speed from now on, in thousandths of its highest.
    pub fn set_speed(&mut self, cpu: CpuId, per_mille: u32) {
        self.set_pace(cpu.index(), (u64::from(per_mille) * FULL_SPEED / 1000).max(1));
    }

    /// A timer of the kernel's own is due.
    pub(crate) fn expire(&mut self, timer: Timer) {
        match timer {
            Timer::Tick(cpu) => self.tick(cpu as usize),
            Timer::Period(group) => self.refill(group),
            Timer::Slack(group) => self.hand_out_slack(group),
            Timer::Replenish(task) => self.replenish(TaskId(task)),
            Timer::FairServer(cpu) => self.serve_fair(cpu as usize),
            Timer::RealTimePeriod => self.end_real_time_period(),
            Timer::Server(cpu) => self.reschedule(cpu as usize),
            Timer::Cache(_) | Timer::Settings => {}
            Timer::Stop(_) | Timer::Workload(_) | Timer::Request(_) | Timer::Task(_) => {}
        }
    }

    pub(crate) fn task(&self, task: TaskId) -> &Task {
        &self.tasks[task.0 as usize]
    }

    /// Runnable threads on a CPU, the running one included.
    pub(crate) fn runnable(&self, cpu: usize) -> usize {
        let seen = &self.cpus[cpu];
        // Those that run are in no queue of theirs.
        let granted = usize::from(seen.current.is_some_and(|task| self.is_granted(task)));
        self.queues[cpu].tasks as usize + seen.real_time.len() + seen.deadline.len() + self.served(cpu) + granted
    }

    /// Brings the sets of CPUs up to date with what is runnable on this one.
    pub(crate) fn refresh_masks(&mut self, cpu: usize) {
        let id = CpuId(cpu as u32);
        let count = self.runnable(cpu);
        let mark = |set: &mut CpuSet, is_in: bool| if is_in { set.insert(id) } else { set.remove(id) };
        mark(&mut self.crowded, count > 1);
        let high = self.cpus[cpu].real_time.len() + self.cpus[cpu].deadline.len();
        let high_runs = self.cpus[cpu].current.is_some_and(|task| self.task(task).class.is_real_time());
        mark(&mut self.urgent, high > usize::from(high_runs));
        let root = &self.queues[cpu];
        let only_fair = high == 0 && self.served(cpu) == 0;
        mark(&mut self.idle_class, only_fair && root.tasks > 0 && root.tasks == root.idle_tasks);
        if self.idle.contains(id) != (count == 0) {
            mark(&mut self.idle, count == 0);
            let core = self.topology.core_of(id);
            let whole = core.is_subset(&self.idle);
            for sibling in core.iter() {
                if whole { self.idle_cores.insert(sibling) } else { self.idle_cores.remove(sibling) }
            }
        }
    }
}

fn new_cpu(cpu: usize, timers: &mut Timers<Timer>, domains: usize) -> Cpu {
    let number = cpu as u32;
    Cpu {
        current: None,
        accounted: 0,
        progressed: 0,
        work_from: 0,
        away: false,
        enters_at: 0,
        speed: FULL_SPEED,
        stop: timers.add(Timer::Stop(number)),
        tick: timers.add(Timer::Tick(number)),
        tick_is_set: false,
        pending: false,
        picks_after_completion: false,
        lazy: false,
        real_time: Vec::new(),
        real_time_used: 0,
        real_time_throttled: false,
        deadline: Vec::new(),
        servers: None,
        serving: None,
        fair_server: timers.add(Timer::FairServer(number)),
        fair_server_is_set: false,
        idle_since: 0,
        mean_idle: 1_000_000,
        busy_time: 0,
        nothing_to_pull_until: 0,
        balance: vec![(0, 0); domains],
    }
}
