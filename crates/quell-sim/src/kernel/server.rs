//! Deferrable servers: on one CPU a workload's ordinary threads run at the server's fixed priority while it has budget,
//! and not at all when it has none (vas-rtns21 §3.2). They come after real-time threads and before the fair class.
//!
//! Budgets are those of the reference function in `quell-model`. Threads of one server get what `grant` gives them on a CPU
//! that their workload holds: they run first come, first served, and those of best-effort work take turns.

use quell_model::{CpuId, DeferrableServer, Event, Nanos, WorkloadId};

use super::Kernel;
use super::fair::Arrival;
use super::grant::TURN;
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

/// What a server gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// CPU time per period; none takes the server back.
    pub budget: Nanos,
    /// The period.
    pub period: Nanos,
    /// Fixed priority among the CPU's servers; higher runs first.
    pub priority: u32,
    /// Do its threads take turns, as those of best-effort work do?
    pub in_turns: bool,
}

#[derive(Clone, Debug)]
struct Server {
    workload: u32,
    priority: u32,
    in_turns: bool,
    budget: DeferrableServer,
    /// The end of the last period in which an exhausted budget was reported.
    told_until: Nanos,
    /// The longest run beyond a budget since then.
    overrun: Nanos,
    /// Periods in which the budget was used up while threads wanted to run.
    exhausted: u64,
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

    /// Periods in which a server's budget was used up while its threads wanted to run, over all servers that there are.
    #[must_use]
    pub fn exhausted_budgets(&self) -> u64 {
        let servers = self.cpus.iter().filter_map(|cpu| cpu.servers.as_deref());
        servers.flat_map(|servers| &servers.list).map(|server| server.exhausted).sum()
    }

    pub(crate) fn is_served_on(&self, workload: u32, cpu: usize) -> bool {
        let servers = self.cpus[cpu].servers.as_deref();
        servers.is_some_and(|servers| servers.list.iter().any(|server| server.workload == workload))
    }

    fn server(&mut self, workload: u32, cpu: usize) -> Option<&mut Server> {
        self.cpus[cpu].servers.as_deref_mut()?.of(workload)
    }

    /// From now on, a workload's threads run as a deferrable server on this CPU: so much budget every period, at this
    /// priority. No budget: they are ordinary again. A server that is there goes on: another budget or period counts from the
    /// next period on.
    pub fn set_server(&mut self, workload: u32, cpu: CpuId, spec: ServerSpec) {
        let ServerSpec { budget, period, priority, in_turns } = spec;
        let (place, now) = (cpu.index(), Nanos(self.now));
        if budget > Nanos::ZERO
            && let Some(server) = self.server(workload, place).filter(|server| server.priority == priority)
        {
            return server.budget.set(budget, period, now);
        }
        let away = self.set_aside_for(workload, place);
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
            let (told_until, overrun, threads) = (Nanos::ZERO, Nanos::ZERO, Vec::new());
            let exhausted = 0;
            list.insert(
                at,
                Server { workload, priority, in_turns, budget: server, told_until, overrun, exhausted, threads },
            );
            servers.timer.get_or_insert_with(|| self.timers.add(Timer::Server(cpu.0)));
        }
        away.into_iter().for_each(|task| self.bring(task));
        self.reschedule(place);
    }

    /// A workload is gone, after its threads, and so are its servers.
    pub(crate) fn dismiss_servers(&mut self, workload: u32) {
        for servers in self.cpus.iter_mut().filter_map(|cpu| cpu.servers.as_deref_mut()) {
            servers.list.retain(|server| server.workload != workload);
            servers.former.retain(|&(other, _)| other != workload);
        }
    }

    /// Takes a workload's threads that a server on this CPU may concern off their queues; those that are to be brought back.
    fn set_aside_for(&mut self, workload: u32, cpu: usize) -> Vec<TaskId> {
        let concerned = |task: &TaskId| {
            let seen = self.task(*task);
            seen.workload == workload && (seen.cpu == cpu || self.grants_cpus() && self.may_run(*task, cpu))
        };
        let threads: Vec<TaskId> = (0..self.tasks.len() as u32).map(TaskId).filter(concerned).collect();
        for &task in threads.iter().filter(|&&task| self.is_granted(task)).collect::<Vec<_>>() {
            // It may wait without ever having run anywhere.
            self.leave_granted(task);
        }
        threads.into_iter().filter(|&task| self.put_aside(task)).collect()
    }

    /// Where CPUs belong to workloads: the CPU where a server of this thread's workload is to run it, if there is one; of
    /// several the one with the fewest threads, and of those where it ran last.
    fn server_for(&self, task: TaskId) -> Option<usize> {
        let seen = self.task(task);
        let has_one = |&cpu: &usize| self.is_served_on(seen.workload, cpu) && self.may_run(task, cpu);
        (0..self.cpus.len()).filter(has_one).min_by_key(|&cpu| (self.served(cpu), cpu != seen.cpu, cpu))
    }

    /// Where CPUs belong to workloads: joins the queue of a server, if there is one for it.
    pub(crate) fn wake_served(&mut self, task: TaskId) -> bool {
        let Some(cpu) = self.server_for(task) else { return false };
        self.account(cpu);
        self.put_on(task, cpu, Arrival::WakeUp);
        self.preempt_if_due(task, cpu, false);
        true
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
                let full = server.budget.replenished_at();
                waits_until = waits_until.min(full.0);
                if server.told_until < full {
                    server.told_until = full;
                    server.exhausted += 1;
                    let (who, overrun) = (WorkloadId(server.workload), std::mem::take(&mut server.overrun));
                    self.reports.happened.push(Event::BudgetExhausted(who, CpuId(cpu as u32), overrun));
                }
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
            server.overrun = server.overrun.max(server.budget.ran(Nanos(span), now));
        }
    }

    /// When a server's thread that runs here must be looked at: its budget ends, or its period does.
    pub(crate) fn server_stops_at(&mut self, task: TaskId, cpu: usize) -> u64 {
        let (workload, now) = (self.task(task).workload, Nanos(self.now));
        let Some(server) = self.server(workload, cpu) else { return u64::MAX };
        let left = server.budget.left(now);
        server.budget.replenished_at().min(now + left).0
    }

    /// A tick: a turn may be over, and the next one of the server's threads has its own.
    pub(crate) fn tick_served(&mut self, task: TaskId, cpu: usize) {
        let (workload, ran) = (self.task(task).workload, self.now - self.task(task).turn_began);
        if let Some(server) = self.server(workload, cpu)
            && server.in_turns
            && ran >= TURN
            && server.threads.len() > 1
        {
            server.threads.rotate_left(1);
            self.reschedule(cpu);
        }
    }
}
