//! Where threads wait for something to do, for locks, and for each other. Every wait ends with the course.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quell_model::Nanos;
use quell_thread::clock;

use super::plan::Flags;
use super::state::{State, Task};

/// The threads of a workload in their pools.
#[derive(Debug)]
pub struct Line {
    inner: Mutex<Inner>,
    pools: Vec<Pool>,
    locks: Vec<Mutex<()>>,
    /// A signal was given, a stage has ended, a barrier is open.
    raised: Condvar,
}

#[derive(Debug)]
struct Inner {
    state: State,
    /// By pool: threads without anything to do, and whether one of them sleeps until the next request.
    idle: Vec<(u32, bool)>,
    /// Threads in the midst of a stage that sleep until something is raised.
    in_stages: u32,
}

#[derive(Debug, Default)]
struct Pool {
    /// Who sleeps until the next request comes.
    leads: Condvar,
    follows: Condvar,
}

impl Line {
    pub fn new(state: State, pools: usize, locks: usize) -> Line {
        Line {
            inner: Mutex::new(Inner { state, idle: vec![(0, false); pools], in_stages: 0 }),
            pools: (0..pools).map(|_| Pool::default()).collect(),
            locks: (0..locks).map(|_| Mutex::default()).collect(),
            raised: Condvar::new(),
        }
    }

    /// Requests that arrived and count.
    pub fn arrived(&self) -> u64 {
        self.inner().state.arrived
    }

    /// A stage for a thread of this pool, which sleeps until there is one; None: the course has ended.
    pub fn next(&self, pool: usize, end: Nanos) -> Option<Task> {
        let mut inner = self.inner();
        loop {
            let now = clock::now();
            if now >= end {
                return None;
            }
            inner.state.admit(pool, now);
            if let Some(task) = inner.state.take(pool) {
                self.wake(&inner);
                return Some(task);
            }
            let due = inner.state.next_due(pool).filter(|_| !inner.idle[pool].1);
            let leads = due.is_some();
            inner.idle[pool].0 += 1;
            inner.idle[pool].1 |= leads;
            let which = if leads { &self.pools[pool].leads } else { &self.pools[pool].follows };
            inner = waited(which, inner, due.unwrap_or(end).min(end));
            inner.idle[pool].0 -= 1;
            inner.idle[pool].1 &= !leads;
        }
    }

    /// The step of a stage.
    pub fn act(&self, task: Task, step: usize) -> Option<(super::Act, Nanos)> {
        self.inner().state.act(task, step)
    }

    /// Does this while it holds a lock. It sleeps until it has it.
    pub fn locked(&self, lock: usize, work: impl FnOnce()) {
        let held = self.locks[lock].lock().unwrap_or_else(PoisonError::into_inner);
        work();
        drop(held);
    }

    /// Gives a request's signal.
    pub fn signal(&self, (job, _): Task, flags: Flags) {
        let mut inner = self.inner();
        inner.state.raise(job, flags);
        self.wake(&inner);
    }

    /// Sleeps until all of this was raised, or the course ends.
    pub fn wait(&self, (job, _): Task, flags: Flags, end: Nanos) {
        self.sleep_until(self.inner(), end, |state| state.is_raised(job, flags));
    }

    /// Sleeps until all have come to this barrier of a request, or the course ends.
    pub fn meet(&self, (job, _): Task, barrier: usize, end: Nanos) {
        let mut inner = self.inner();
        if inner.state.comes(job, barrier) {
            return self.wake(&inner);
        }
        self.sleep_until(inner, end, |state| state.is_open(job, barrier));
    }

    /// A thread is through with a stage. When the request arrived, if that was its last one.
    pub fn end_stage(&self, task: Task, now: Nanos) -> Option<Nanos> {
        let mut inner = self.inner();
        let arrived = inner.state.end_stage(task, now);
        if arrived.is_some() {
            // A client may ask again before the next request is due.
            self.pools.iter().for_each(|pool| pool.leads.notify_one());
        }
        self.wake(&inner);
        arrived
    }

    /// Wakes a thread for each stage that is ready and that none has taken, as far as there are idle ones.
    fn wake(&self, inner: &Inner) {
        for (number, (pool, &(idle, leads))) in self.pools.iter().zip(&inner.idle).enumerate() {
            let followers = idle - u32::from(leads);
            let ready = inner.state.waiting(number) as u32;
            (0..ready.min(followers)).for_each(|_| pool.follows.notify_one());
            if ready > followers && leads {
                pool.leads.notify_one();
            } else if !leads && ready == 0 && followers > 0 && inner.state.next_due(number).is_some() {
                // Who led has something to do: another one leads.
                pool.follows.notify_one();
            }
        }
        if inner.in_stages > 0 {
            self.raised.notify_all();
        }
    }

    fn sleep_until(&self, mut inner: MutexGuard<'_, Inner>, end: Nanos, is_so: impl Fn(&State) -> bool) {
        inner.in_stages += 1;
        while !is_so(&inner.state) && clock::now() < end {
            inner = waited(&self.raised, inner, end);
        }
        inner.in_stages -= 1;
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn waited<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>, until: Nanos) -> MutexGuard<'a, T> {
    let left = Duration::from_nanos(until.0.saturating_sub(clock::now().0));
    condition.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0
}
