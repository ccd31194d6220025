//! A stage for tests: a scheduler on paper that plays scenes and writes the events that a kernel would report.

use quell_model::{CpuId, Nanos};
use quell_trace::{Change, Event, Left, Member, Task};

/// A thread on the stage: its number and its workload.
pub(crate) fn thread(tid: i32, slot: u16) -> Member {
    Member { tid, slot }
}

/// CPUs with their running and waiting threads.
pub(crate) struct Stage {
    pub now: Nanos,
    pub events: Vec<Event>,
    running: Vec<Task>,
    waiting: Vec<Vec<Member>>,
}

impl Stage {
    pub fn new(cpus: usize) -> Stage {
        Stage { now: Nanos::ZERO, events: Vec::new(), running: vec![Task::Idle; cpus], waiting: vec![Vec::new(); cpus] }
    }

    pub fn running(&self, cpu: usize) -> Task {
        self.running[cpu]
    }

    pub fn waiting(&self, cpu: usize) -> &[Member] {
        &self.waiting[cpu]
    }

    pub fn pass(&mut self, time: Nanos) {
        self.now += time;
    }

    fn emit(&mut self, cpu: usize, what: Change) {
        self.events.push(Event { at: self.now, cpu: CpuId(cpu as u32), what });
    }

    /// A sleeping thread wakes on a CPU and waits there.
    pub fn wake(&mut self, cpu: usize, member: Member) {
        self.waiting[cpu].push(member);
        self.emit(cpu, Change::Woke(member));
    }

    /// A waiting thread moves to another CPU's runqueue.
    pub fn migrate(&mut self, from: usize, index: usize, to: usize) {
        let member = self.waiting[from].remove(index);
        self.waiting[to].push(member);
        self.emit(to, Change::Migrated(member));
    }

    /// The CPU runs `to` from now on; a watched thread that ran before is `left`.
    pub fn switch(&mut self, cpu: usize, left: Left, to: Task) {
        let from = std::mem::replace(&mut self.running[cpu], to);
        if let Task::Member(member) = to {
            self.waiting[cpu].retain(|waiting| *waiting != member);
        }
        if let (Task::Member(member), Left::Runnable) = (from, left) {
            self.waiting[cpu].push(member);
        }
        self.emit(cpu, Change::Switch { from, left, to });
    }

    /// Applies an event of another stage.
    pub fn repeat(&mut self, event: &Event) {
        self.now = event.at;
        let cpu = event.cpu.index();
        match event.what {
            Change::Woke(member) => self.wake(cpu, member),
            Change::Migrated(member) => {
                let found = |queue: &Vec<Member>| queue.iter().position(|waiting| *waiting == member);
                if let Some((from, index)) =
                    self.waiting.iter().enumerate().find_map(|(from, queue)| Some((from, found(queue)?)))
                {
                    self.migrate(from, index, cpu);
                }
            }
            Change::Switch { left, to, .. } => self.switch(cpu, left, to),
            _ => {}
        }
    }
}
