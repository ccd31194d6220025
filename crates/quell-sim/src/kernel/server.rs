//! Deferrable servers: on one CPU a workload's ordinary threads run at the server's fixed priority while it has budget,
//! and not at all when it has none (vas-rtns21 §3.2). They come after real-time threads and before the fair class.
//!
//! Budgets are those of the reference function in `quell-model`. Threads of one server run first come, first served,
//! and take turns at ticks.

use quell_model::{CpuId, DeferrableServer, Nanos};

use super::Kernel;
use super::state::{TaskId, Timer};
use crate::timers::TimerId;

/// The servers of one CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Servers {
    /// The highest priority first; of equals the one that was there first.
    list: Vec<Server>,
    /// Servers that were taken back, by workload, until their period ends: set again within it they go on.
    former: Vec<(u32, DeferrableServer)>,
    /// When a budget is full again that threads wait for.
    timer: Option<TimerId>,
}

#[derive(Clone, Debug)]
struct Server {
    workload: u32,
    priority: u32,
    budget: DeferrableServer,
    /// Runnable threads, the running one included.
    threads: Vec<TaskId>,
}

impl Servers {
    fn of(&mut self, workload: u32) -> Option<&mut Server> {
        self.list.iter_mut().find(|server| server.workload == workload)
    }
}

impl Kernel {
    /// Runnable threads of a CPU's servers.
    pub(crate) fn served(&self, cpu: usize) -> usize {
        let threads = |servers: &Servers| servers.list.iter().map(|server| server.threads.len()).sum();
        self.cpus[cpu].servers.as_deref().map_or(0, threads)
    }

    pub(crate) fn is_served_on(&self, workload: u32, cpu: usize) -> bool {
        let servers = self.cpus[cpu].servers.as_deref();
        servers.is_some_and(|servers| servers.list.iter().any(|server| server.workload == workload))
    }

    fn server(&mut self, workload: u32, cpu: usize) -> Option<&mut Server> {
        self.cpus[cpu].servers.as_deref_mut()?.of(workload)
    }

    /// From now on, a workload's threads run as a deferrable server on this CPU: so much budget every period, at this
    /// priority (higher first). No budget: they are ordinary again. A server that is there goes on: another budget or period
    /// counts from the next period on.
    pub fn set_server(&mut self, workload: u32, cpu: CpuId, budget: Nanos, period: Nanos, priority: u32) {
        let (place, now) = (cpu.index(), Nanos(self.now));
        if budget > Nanos::ZERO
            && let Some(server) = self.server(workload, place).filter(|server| server.priority == priority)
        {
            return server.budget.set(budget, period, now);
        }
        let here = |task: &TaskId| self.task(*task).workload == workload && self.task(*task).cpu == place;
        let threads: Vec<TaskId> = (0..self.tasks.len() as u32).map(TaskId).filter(here).collect();
        let away: Vec<TaskId> = threads.into_iter().filter(|&task| self.put_aside(task)).collect();
        let servers = self.cpus[place].servers.get_or_insert_default();
        let Servers { list, former, .. } = &mut **servers;
        former.extend(list.iter().filter(|server| server.workload == workload).map(|server| (workload, server.budget)));
        list.retain(|server| server.workload != workload);
        former.retain(|(_, server)| server.replenished_at() > now);
        if budget > Nanos::ZERO {
            let known = former.iter().position(|(other, _)| *other == workload).map(|at| former.swap_remove(at).1);
            let mut server = known.unwrap_or_else(|| DeferrableServer::new(budget, period, now));
            server.set(budget, period, now);
            let at = list.partition_point(|server| server.priority >= priority);
            list.insert(at, Server { workload, priority, budget: server, threads: Vec::new() });
            servers.timer.get_or_insert_with(|| self.timers.add(Timer::Server(cpu.0)));
        }
        away.into_iter().for_each(|task| self.bring(task));
        self.reschedule(place);
    }

    pub(crate) fn join_server(&mut self, task: TaskId, cpu: usize) {
        let workload = self.task(task).workload;
        if let Some(server) = self.server(workload, cpu) {
            server.threads.push(task);
            self.tasks[task.0 as usize].served = Some(server.priority);
        }
    }

    pub(crate) fn leave_server(&mut self, task: TaskId, cpu: usize) {
        let seen = &mut self.tasks[task.0 as usize];
        seen.served = None;
        if let Some(server) = self.cpus[cpu].servers.as_deref_mut().and_then(|servers| servers.of(seen.workload)) {
            server.threads.retain(|&other| other != task);
        }
    }

    /// The first thread of the first server that has threads and budget.
    pub(crate) fn pick_served(&mut self, cpu: usize) -> Option<TaskId> {
        let now = Nanos(self.now);
        let servers = self.cpus[cpu].servers.as_deref_mut()?;
        let mut waits_until = u64::MAX;
        let mut picked = None;
        for server in servers.list.iter_mut().filter(|server| !server.threads.is_empty()) {
            if server.budget.left(now) == Nanos::ZERO {
                waits_until = waits_until.min(server.budget.replenished_at().0);
            } else if picked.is_none() {
                picked = Some(server.threads[0]);
            }
        }
        match servers.timer {
            Some(timer) if waits_until < u64::MAX => self.timers.set(timer, waits_until),
            Some(timer) => self.timers.cancel(timer),
            None => {}
        }
        picked
    }

    /// A server's thread ran for this long up to now.
    pub(crate) fn charge_server(&mut self, task: TaskId, cpu: usize, span: u64) {
        let (workload, now) = (self.task(task).workload, Nanos(self.now));
        if let Some(server) = self.server(workload, cpu) {
            server.budget.ran(Nanos(span), now);
        }
    }

    /// When a server's thread that runs here must be looked at: its budget ends, or its period does.
    pub(crate) fn server_stops_at(&mut self, task: TaskId, cpu: usize) -> u64 {
        let (workload, now) = (self.task(task).workload, Nanos(self.now));
        let Some(server) = self.server(workload, cpu) else { return u64::MAX };
        let left = server.budget.left(now);
        server.budget.replenished_at().min(now + left).0
    }

    /// A tick: the next one of the server's threads has its turn.
    pub(crate) fn tick_served(&mut self, task: TaskId, cpu: usize) {
        let workload = self.task(task).workload;
        if let Some(server) = self.server(workload, cpu)
            && server.threads.len() > 1
        {
            server.threads.rotate_left(1);
            self.reschedule(cpu);
        }
    }
}
