//! Schedules, unit by unit: which job runs, on a whole CPU or by a server's budget.

use quell_model::{DeferrableServer, Nanos};

/// A job of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    pub task: usize,
    pub release: u64,
    pub work: u64,
    /// The task's period.
    pub period: u64,
}

/// Work-conserving and stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Fifo,
    RateMonotonic,
    EarliestDeadline,
}

pub const ORDERS: [Order; 3] = [Order::Fifo, Order::RateMonotonic, Order::EarliestDeadline];

impl Order {
    fn key(self, job: &Job) -> (u64, u64, usize) {
        match self {
            Order::Fifo => (job.release, 0, job.task),
            Order::RateMonotonic => (job.period, job.release, job.task),
            Order::EarliestDeadline => (job.release + job.period, job.release, job.task),
        }
    }
}

/// A server: budget, period, and when its periods begin.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    pub budget: u64,
    pub period: u64,
    pub phase: u64,
}

/// Every task's job that runs in each unit of time, if one does; the jobs are in the order of their releases.
pub fn schedule(jobs: &[Job], order: Order, server: Option<Server>, units: u64) -> Vec<Option<(usize, u64)>> {
    let mut pending: Vec<Job> = Vec::new();
    let mut coming = jobs.iter().peekable();
    // The first period may be cut short: it began before time 0 with a full budget, which nothing has used.
    let mut budget = server.map(|server| {
        let begins = server.period - server.phase % server.period;
        (begins, DeferrableServer::new(Nanos(server.budget), Nanos(server.period), Nanos(0)))
    });
    let unit = |now| {
        while let Some(job) = coming.next_if(|job| job.release <= now) {
            pending.push(*job);
        }
        let may_run = budget.as_mut().is_none_or(|(begins, server)| server.left(Nanos(now + *begins)) > Nanos::ZERO);
        let next = (0..pending.len()).min_by_key(|&at| order.key(&pending[at])).filter(|_| may_run)?;
        if let Some((begins, server)) = &mut budget {
            server.ran(Nanos(1), Nanos(now + *begins + 1));
        }
        let runs = (pending[next].task, pending[next].release);
        pending[next].work -= 1;
        if pending[next].work == 0 {
            pending.remove(next);
        }
        Some(runs)
    };
    (0..units).map(unit).collect()
}
