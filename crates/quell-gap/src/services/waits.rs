//! Scheduling events in, lost time out: a pure state machine, whose work at an event does not grow with the services.

use std::collections::{BTreeMap, HashMap};

use quell_model::{CpuId, CpuSet, Nanos};
use quell_trace::{Change, Doing, Event, Left, Member, Slot, Task};

/// What had a CPU for which a service waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// Nothing: the CPU was on its way out of idle, or the service's own limit kept its threads off it.
    Idle,
    /// Another service.
    Service(Slot),
    /// The service's own threads.
    Own,
    /// A thread of no service: the kernel's, or Quell's.
    Thread(i32),
}

/// One service's time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// CPU time that it had.
    pub ran: Nanos,
    /// CPU time for which it waited, by what had the CPU.
    pub by: BTreeMap<Holder, Nanos>,
}

/// For how long a service waited on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// The CPU's time: however many of its threads waited there.
    pub cpu: Nanos,
    /// Its threads' time: the sum over those that waited there.
    pub threads: Nanos,
}

/// By CPU and by what had it.
pub type Pieces = BTreeMap<(u32, Holder), Waited>;

#[derive(Clone, Debug, Default)]
struct Book {
    ran: Nanos,
    waited: Pieces,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waiting(usize),
    Running(usize),
    Sleeping,
}

#[derive(Clone, Debug)]
struct Cpu {
    task: Task,
    /// Is the task known from an event?
    is_known: bool,
    since: Nanos,
    /// Services with waiting threads, and the number of those.
    waiting: Vec<(Slot, u32)>,
}

/// The losses of services over a window: fed with events in the order of time. Those before the window's begin set the scene.
#[derive(Clone, Debug)]
pub struct Waits {
    books: Vec<Book>,
    threads: HashMap<i32, (Slot, Place)>,
    cpus: Vec<Cpu>,
    ours: CpuSet,
    now: Nanos,
}

impl Waits {
    /// This number of services on these CPUs, from `begin` on.
    #[must_use]
    pub fn new(services: usize, cpus: CpuSet, begin: Nanos) -> Waits {
        let numbers = cpus.iter().last().map_or(0, |cpu| cpu.index() + 1);
        let cpu = Cpu { task: Task::Idle, is_known: false, since: begin, waiting: Vec::new() };
        Waits {
            books: vec![Book::default(); services],
            threads: HashMap::new(),
            cpus: vec![cpu; numbers],
            ours: cpus,
            now: begin,
        }
    }

    /// Takes the next event.
    pub fn apply(&mut self, event: &Event) {
        self.now = self.now.max(event.at);
        let cpu = Some(event.cpu).filter(|cpu| self.ours.contains(*cpu)).map(CpuId::index);
        match event.what {
            Change::Switch { from, left, to } => {
                if let Task::Member(member) = from {
                    let is_there = |place| cpu.is_some_and(|cpu| place == Place::Running(cpu));
                    match (left, cpu) {
                        // A place from an event since then is newer.
                        (Left::Untold, _) if !self.place_of(member.tid).is_some_and(is_there) => {}
                        (Left::Runnable, Some(cpu)) => self.place(member, Place::Waiting(cpu)),
                        (Left::Dead, _) => self.forget(member.tid),
                        _ => self.place(member, Place::Sleeping),
                    }
                }
                if let Some(cpu) = cpu {
                    self.run(cpu, to);
                }
            }
            Change::Woke(member) => match (self.place_of(member.tid), cpu) {
                (Some(Place::Running(_)), _) | (_, None) => {}
                (_, Some(cpu)) => self.place(member, Place::Waiting(cpu)),
            },
            Change::Migrated(member) => {
                if let (Some(Place::Waiting(_)), Some(cpu)) = (self.place_of(member.tid), cpu) {
                    self.place(member, Place::Waiting(cpu));
                }
            }
            Change::Born(member) => self.place(member, Place::Sleeping),
            Change::Seen(member, doing) => {
                if self.place_of(member.tid).is_none() {
                    match (doing, cpu) {
                        // What a switch has reported since then is newer.
                        (Doing::Running, Some(cpu)) if !self.cpus[cpu].is_known => self.run(cpu, Task::Member(member)),
                        (Doing::Waiting, Some(cpu)) => self.place(member, Place::Waiting(cpu)),
                        _ => self.place(member, Place::Sleeping),
                    }
                }
            }
            Change::Holds(task) => {
                if let Some(cpu) = cpu.filter(|cpu| !self.cpus[*cpu].is_known) {
                    self.run(cpu, task);
                }
            }
            Change::Unwatched(member) => self.forget(member.tid),
        }
    }

    /// Ends the window.
    #[must_use]
    pub fn close(mut self, end: Nanos) -> Vec<Lost> {
        self.settle_all(end);
        let lost = |book: Book| {
            let mut by = BTreeMap::<Holder, Nanos>::new();
            for ((_, holder), waited) in book.waited {
                *by.entry(holder).or_default() += waited.cpu;
            }
            Lost { ran: book.ran, by }
        };
        self.books.into_iter().map(lost).collect()
    }

    /// What each service waited for until now, since the last cut; the window goes on.
    pub fn cut(&mut self, now: Nanos) -> Vec<Pieces> {
        self.settle_all(now);
        self.books.iter_mut().map(|book| std::mem::take(&mut book.waited)).collect()
    }

    fn settle_all(&mut self, until: Nanos) {
        self.now = self.now.max(until);
        (0..self.cpus.len()).for_each(|cpu| self.settle(cpu));
    }

    fn place_of(&self, tid: i32) -> Option<Place> {
        self.threads.get(&tid).map(|(_, place)| *place)
    }

    /// A CPU runs a task from now on.
    fn run(&mut self, cpu: usize, task: Task) {
        if let Task::Member(member) = task {
            self.place(member, Place::Running(cpu));
        }
        self.settle(cpu);
        (self.cpus[cpu].task, self.cpus[cpu].is_known) = (task, true);
    }

    fn place(&mut self, member: Member, place: Place) {
        if usize::from(member.slot) >= self.books.len() {
            return;
        }
        let before = self.threads.insert(member.tid, (member.slot, place));
        self.leave(before);
        if let Place::Waiting(cpu) = place {
            self.settle(cpu);
            let waiting = &mut self.cpus[cpu].waiting;
            match waiting.iter_mut().find(|(slot, _)| *slot == member.slot) {
                Some((_, threads)) => *threads += 1,
                None => waiting.push((member.slot, 1)),
            }
        }
    }

    fn forget(&mut self, tid: i32) {
        let before = self.threads.remove(&tid);
        self.leave(before);
    }

    fn leave(&mut self, place: Option<(Slot, Place)>) {
        let Some((slot, Place::Waiting(cpu))) = place else { return };
        self.settle(cpu);
        let waiting = &mut self.cpus[cpu].waiting;
        if let Some(at) = waiting.iter().position(|(of, _)| *of == slot) {
            waiting[at].1 -= 1;
            if waiting[at].1 == 0 {
                waiting.swap_remove(at);
            }
        }
    }

    /// Charges the time since this was done last: until now nothing changed on this CPU.
    fn settle(&mut self, cpu: usize) {
        let Cpu { task, since, waiting, .. } = &mut self.cpus[cpu];
        let span = self.now.since(*since);
        *since = self.now;
        if span == Nanos::ZERO {
            return;
        }
        let holder = match *task {
            Task::Idle => Holder::Idle,
            Task::Other(tid) => Holder::Thread(tid),
            Task::Member(member) => Holder::Service(member.slot),
        };
        if let Task::Member(member) = *task
            && let Some(book) = self.books.get_mut(usize::from(member.slot))
        {
            book.ran += span;
        }
        for (slot, threads) in waiting.iter() {
            let holder = if holder == Holder::Service(*slot) { Holder::Own } else { holder };
            let waited = self.books[usize::from(*slot)].waited.entry((cpu as u32, holder)).or_default();
            waited.cpu += span;
            waited.threads += Nanos(span.0 * u64::from(*threads));
        }
    }
}

#[cfg(test)]
#[path = "waits_tests.rs"]
mod tests;
