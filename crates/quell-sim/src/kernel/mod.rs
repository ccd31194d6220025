//! The simulated kernel: threads on CPUs, by the rules of Linux.
//!
//! `state` has the data. `class` has the scheduling classes in their order. `dispatch` accounts what ran and switches threads, `wake` brings threads to CPUs and takes
//! them away, `wakers` counts who woke whom, `fork` begins and ends threads that come and go during a run, `fair` is EEVDF and CFS over groups, `bandwidth` is cpu.max, `realtime` and
//! `deadline` are the classes above, `throttle` limits the real-time class, `server` is the deferrable servers between,
//! `balance` moves waiting threads, `partition` splits the CPUs, `grant` is Quell's own class where CPUs belong to
//! workloads, `progress` the order in which some share theirs. `guest` is what differs where the CPUs are threads of a host, `phase` says what runs to who slows it down.

mod balance;
mod bandwidth;
mod class;
mod deadline;
mod dispatch;
mod fair;
mod fork;
mod grant;
mod groups;
mod guest;
mod partition;
mod phase;
mod place;
mod progress;
mod realtime;
mod server;
mod state;
mod throttle;
mod trace;
mod wake;
mod wakers;

use std::sync::Arc;

use quell_model::{CpuId, CpuSet, SchedClass, Topology};

pub use crate::config::{Costs, FairScheduler, IdleSearch, Interrupts, KernelConfig, Loads, RealTimeLimit};
pub use crate::ids::{GroupId, TaskId};
pub use crate::reports::Counters;
pub use crate::trace::Stretch;
pub(crate) use grant::Grants;
use guest::Levels;
pub use partition::Partition;
pub use server::ServerSpec;
pub(crate) use state::{ENDLESS, FULL_SPEED, PhaseId, Timer};

use crate::chance::Chance;
use crate::domains::Domains;
use crate::imbalance::Looks;
use crate::masks::{Masks, Runnable};
use crate::mechanisms::Mechanism;
use crate::reports::Reports;
use crate::switching::Switching;
use crate::timers::Timers;
use state::{Average, Budget, Cpu, Entity, State, Task, Tree};

/// The kernel and its machine.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) config: KernelConfig,
    pub(crate) topology: Arc<Topology>,
    pub(crate) now: u64,
    pub(crate) timers: Timers<Timer>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) tree: Tree,
    pub(crate) grants: Grants,
    pub(crate) masks: Masks,
    domains: Domains,
    fair: fair::Sizes,
    real_time_period: throttle::Period,
    pub(crate) levels: Levels,
    pub(crate) phases: phase::Changes,
    pub(crate) reports: Reports,
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
        Kernel {
            now: 0,
            cpus,
            tasks: Vec::new(),
            tree: Tree::new(count),
            grants: Grants::new(count),
            masks: Masks::new(topology.all()),
            domains,
            fair: fair::Sizes::of(&config, count),
            real_time_period: throttle::Period::new(timers.add(Timer::RealTimePeriod)),
            levels: Levels::default(),
            phases: phase::Changes::default(),
            reports: Reports::default(),
            timers,
            topology,
            config: config.written_out(),
        }
    }

    /// What the kernel leaves to chance depends on this seed and, of several kernels, on its number; before time passes.
    pub(crate) fn set_seed(&mut self, seed: u64, number: u64) {
        let tick = self.config.tick.0;
        self.fair.chance = Chance::new(seed, number, self.has(Mechanism::TickPhase).then_some(tick));
    }

    /// A new thread, asleep and without work, in a group and of a workload.
    pub fn spawn(&mut self, group: GroupId, workload: u32, class: SchedClass) -> TaskId {
        let id = TaskId(self.tasks.len() as u32);
        let entity = self.tree.entities.len();
        let depth = self.tree.groups[group.0 as usize].depth;
        let queue = self.tree.groups[group.0 as usize].queues;
        self.tree.entities.push(Entity::new(state::Content::Task(id), queue, depth));
        let timer = self.timers.add(Timer::Task(id.0));
        self.tasks.push(Task {
            state: State::Sleeping,
            stopped: false,
            ended: false,
            queued: false,
            class: SchedClass::NORMAL,
            own_class: class,
            cpu: usize::MAX,
            affinity: None,
            allowed: self.masks.online,
            group,
            workload,
            served: None,
            entity,
            own_weight: None,
            latency: None,
            left: 0,
            run_time: 0,
            run_delay: 0,
            switching: Switching::default(),
            late_starts: 0,
            runnable_since: 0,
            ran_at: 0,
            ran_on: usize::MAX,
            was_on: usize::MAX,
            is_new: false,
            woken_by_thread: false,
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
        self.masks.idle
    }

    /// What the kernel has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.reports.counters
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
            Timer::Cache(_) | Timer::Settings | Timer::Gpu => {}
            Timer::Stop(_) | Timer::Workload(_) | Timer::Request(_) | Timer::Task(_) => {}
        }
    }

    /// Is a mechanism simulated?
    #[inline(always)]
    pub(crate) fn has(&self, mechanism: Mechanism) -> bool {
        self.config.mechanisms.is_some_and(|all| all.has(mechanism))
    }

    pub(crate) fn task(&self, task: TaskId) -> &Task {
        &self.tasks[task.0 as usize]
    }

    /// Runnable threads on a CPU, the running one included.
    pub(crate) fn runnable(&self, cpu: usize) -> usize {
        let seen = &self.cpus[cpu];
        // Those that run are in no queue of theirs.
        let granted = usize::from(seen.current.is_some_and(|task| self.is_granted(task)));
        self.tree.queues[cpu].tasks as usize + seen.real_time.len() + seen.deadline.len() + self.served(cpu) + granted
    }

    /// Brings the sets of CPUs up to date with what is runnable on this one.
    pub(crate) fn refresh_masks(&mut self, cpu: usize) {
        let high = self.cpus[cpu].real_time.len() + self.cpus[cpu].deadline.len();
        let high_runs = self.cpus[cpu].current.is_some_and(|task| self.task(task).class.is_real_time());
        let root = &self.tree.queues[cpu];
        let only_fair = high == 0 && self.served(cpu) == 0;
        let runnable = Runnable {
            count: self.runnable(cpu),
            urgent: high > usize::from(high_runs),
            idle_class: only_fair && root.tasks > 0 && root.tasks == root.idle_tasks,
        };
        let id = CpuId(cpu as u32);
        self.masks.note(id, runnable, &self.topology.core_of(id));
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
        scan_cost: 0,
        busy_time: 0,
        nothing_to_pull_until: 0,
        balance: vec![(0, 0); domains],
        looks: vec![Looks::FIRST; domains],
        used: Average::default(),
    }
}
