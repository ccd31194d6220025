//! The scheduling classes in their order, and what each does at the moments that all of them have.
//!
//! A thread is in one class at a time ([`Kernel::class_of`]); of a CPU's classes the first that has a thread runs it. To add
//! one: a line in [`Class`], a file with its queues, and its arm at each moment here.

use quell_model::SchedClass;

use super::Kernel;
use super::fair::{Arrival, Departure};
use super::state::{State, TaskId};

/// SCHED_RR's quantum, ns (`sched_rr_timeslice_ms`).
const ROUND_ROBIN: u64 = 100_000_000;

/// A scheduling class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_FIFO and SCHED_RR.
    RealTime,
    /// Deferrable servers: ordinary threads of a workload that has one here.
    Servers,
    /// Quell's own class, where CPUs belong to workloads: all other threads, if it is on.
    Grants,
    /// EEVDF or CFS: all other threads, if it is not.
    Fair,
}

/// All, the first first.
pub(super) const CLASSES: [Class; 5] = [Class::Deadline, Class::RealTime, Class::Servers, Class::Grants, Class::Fair];

impl Kernel {
    /// The class of threads that have no other.
    #[inline(always)]
    pub(crate) fn ordinary(&self) -> Class {
        if self.grants.is_on { Class::Grants } else { Class::Fair }
    }

    /// Do CPUs belong to workloads here?
    #[inline(always)]
    pub(crate) fn grants_cpus(&self) -> bool {
        self.ordinary() == Class::Grants
    }

    /// The class that a thread is in.
    #[inline(always)]
    pub(crate) fn class_of(&self, task: TaskId) -> Class {
        let seen = self.task(task);
        match seen.class {
            SchedClass::Deadline { .. } => Class::Deadline,
            SchedClass::Fifo { .. } | SchedClass::RoundRobin { .. } => Class::RealTime,
            _ if seen.served.is_some() => Class::Servers,
            _ => self.ordinary(),
        }
    }

    /// Is the thread in the fair class?
    pub(crate) fn is_fair(&self, task: TaskId) -> bool {
        self.class_of(task) == Class::Fair
    }

    /// Is the thread in Quell's own class?
    pub(crate) fn is_granted(&self, task: TaskId) -> bool {
        self.class_of(task) == Class::Grants
    }

    /// The thread of this class that should run on this CPU.
    #[inline(always)]
    pub(super) fn pick_of(&mut self, class: Class, cpu: usize) -> Option<TaskId> {
        match class {
            Class::Deadline => self.pick_deadline(cpu),
            Class::RealTime => self.pick_real_time(cpu),
            Class::Servers => self.pick_served(cpu),
            _ if class != self.ordinary() => None,
            Class::Grants => self.pick_granted(cpu),
            Class::Fair => self.fair_pick(cpu),
        }
    }

    /// A thread ran here for this long up to now.
    #[inline(always)]
    pub(super) fn charge(&mut self, task: TaskId, cpu: usize, span: u64) {
        match self.class_of(task) {
            Class::Deadline => self.charge_deadline(task, cpu, span),
            Class::RealTime => self.charge_real_time(cpu, span),
            Class::Servers => self.charge_server(task, cpu, span),
            Class::Grants => self.charge_granted(task, span),
            Class::Fair => {
                if self.fair_charge(task, span) {
                    self.reschedule_lazily(cpu);
                }
                self.charge_fair_server(cpu, span);
            }
        }
    }

    /// The tick comes while a thread runs here.
    #[inline(always)]
    pub(super) fn tick_of(&mut self, task: TaskId, cpu: usize) {
        let seen = self.task(task);
        match self.class_of(task) {
            Class::RealTime => {
                let in_turns = matches!(seen.class, SchedClass::RoundRobin { .. });
                if in_turns && self.now - seen.turn_began >= ROUND_ROBIN {
                    self.rotate(task, cpu);
                }
            }
            Class::Deadline => {}
            Class::Servers => self.tick_served(task, cpu),
            Class::Grants => self.tick_granted(task, cpu),
            Class::Fair => {
                self.update_group_weights(task);
                if self.fair_tick(task) {
                    self.reschedule(cpu);
                }
            }
        }
    }

    /// A thread that can run joins the queue of its class on this CPU. One whose workload has a server here is in that class
    /// from now on.
    #[inline(always)]
    pub(super) fn enqueue(&mut self, task: TaskId, cpu: usize, arrival: Arrival) {
        match self.class_of(task) {
            Class::Deadline => self.join_deadline(task, cpu),
            Class::RealTime => self.join_real_time(task, cpu),
            _ if self.is_served_on(self.task(task).workload, cpu) => self.join_server(task, cpu),
            Class::Servers | Class::Grants | Class::Fair => self.fair_enqueue(task, arrival),
        }
    }

    /// A thread leaves the queue of its class. `was_queued`: it was in one, running or not.
    #[inline(always)]
    pub(super) fn dequeue(&mut self, task: TaskId, cpu: usize, how: Departure, was_queued: bool) {
        match self.class_of(task) {
            Class::Deadline => self.cpus[cpu].deadline.retain(|&other| other != task),
            Class::RealTime => self.cpus[cpu].real_time.retain(|&other| other != task),
            Class::Servers => self.leave_server(task, cpu),
            Class::Grants => self.leave_granted(task),
            Class::Fair if was_queued || self.tree.entities[self.task(task).entity].delayed => {
                self.fair_dequeue(task, how)
            }
            Class::Fair => {}
        }
    }

    /// A thread that can run on has lost its CPU: where its class keeps running threads out of its queues, it waits again.
    #[inline(always)]
    pub(super) fn put_back(&mut self, task: TaskId, cpu: usize) {
        if self.is_granted(task) && self.task(task).state == State::Runnable {
            self.requeue_granted(task, cpu);
        }
    }

    /// Does a thread that came to a CPU run before the one that runs there?
    #[inline(always)]
    pub(super) fn preempts(&mut self, task: TaskId, running: TaskId) -> Preempts {
        if self.outranks(task, running) {
            return Preempts::AtOnce;
        }
        let of_fair = self.is_fair(task) && self.is_fair(running);
        if of_fair && self.fair_preempts(task, running) { Preempts::AsSet } else { Preempts::No }
    }
}

/// What becomes of the running thread when another one comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preempts {
    /// It goes on.
    No,
    /// It gives way at once.
    AtOnce,
    /// It gives way at once or at the tick, as preemption is set.
    AsSet,
}
