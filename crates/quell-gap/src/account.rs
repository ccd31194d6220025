//! Scheduling events in, accounts out: a pure state machine over the state of each thread and each CPU.

use std::collections::HashMap;

use quell_model::{CpuCount, CpuId, CpuSet, Nanos};
use quell_trace::{Change, Doing, Event, Left, Member, Slot, Task};

use crate::integrals::{Account, Integrals, MilliCpuNanos, Totals};

/// Holder of a CPU; threads by their numbers, 0 if unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Idle,
    Other(i32),
    Workload(Slot, i32),
}

/// A thread's state and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Running(CpuId),
    Waiting(CpuId),
    Sleeping,
}

/// One workload at this instant, and its sums.
#[derive(Clone, Debug)]
struct Book {
    request: CpuCount,
    running: u32,
    /// Threads that wait, by CPU.
    waiting: Vec<u32>,
    /// Threads that wait on idle CPUs.
    on_idle: u32,
    /// Threads that wait on CPUs that are neither idle nor run this workload.
    behind_others: u32,
    /// All threads that wait.
    waiting_all: u32,
    /// Idle CPUs on which threads of this workload wait.
    idle_awaited: u32,
    /// By thread: its part of the loss to other workloads' threads.
    takers: HashMap<i32, MilliCpuNanos>,
    /// Time with an unknown holder.
    doubt: Nanos,
    period: Integrals,
    totals: Totals,
}

/// A workload's part of the results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Its account.
    pub account: Account,
    /// Bound on the account's error: time on CPUs whose holder the kernel did not report.
    pub doubt: Nanos,
    /// Time lost to threads of others ([`Account::shared`]), by the numbers of those that ran.
    pub takers: HashMap<i32, Nanos>,
}

/// A time in which one of two threads ran, and it is not known which.
#[derive(Clone, Copy, Debug)]
struct Untold {
    since: Nanos,
    between: [Option<Slot>; 2],
}

/// The accounts of a set of workloads over a window.
///
/// Feed it events in the order of time ([`Accounting::apply`]); those before the window's begin set the scene, and count
/// for nothing. Memory grows with the number of watched threads, and nothing else.
#[derive(Clone, Debug)]
pub struct Accounting {
    books: Vec<Book>,
    threads: HashMap<i32, (Slot, Place)>,
    /// The holder by CPU number; `None` before the first report.
    holders: Vec<Option<Holder>>,
    /// By CPU number: a switch that the kernel did not report, until the next one that it reports.
    untold: Vec<Option<Untold>>,
    cpus: CpuSet,
    idle: u32,
    period: Nanos,
    begin: Nanos,
    now: Nanos,
    period_end: Nanos,
    late: u64,
}

impl Accounting {
    /// Workloads with these requests on a machine of these CPUs, over a window that begins at `begin` and is cut into
    /// periods of `period`. CPUs of which nothing was said count as idle, threads of which nothing was said do not exist.
    ///
    /// # Panics
    /// If the period is zero.
    #[must_use]
    pub fn new(requests: &[CpuCount], cpus: CpuSet, begin: Nanos, period: Nanos) -> Accounting {
        assert!(period > Nanos::ZERO, "a period has a length");
        let numbers = cpus.iter().last().map_or(0, |cpu| cpu.index() + 1);
        let book = |&request: &CpuCount| Book {
            request,
            running: 0,
            waiting: vec![0; numbers],
            on_idle: 0,
            behind_others: 0,
            waiting_all: 0,
            idle_awaited: 0,
            takers: HashMap::new(),
            doubt: Nanos::ZERO,
            period: Integrals::default(),
            totals: Totals::default(),
        };
        Accounting {
            books: requests.iter().map(book).collect(),
            threads: HashMap::new(),
            holders: vec![None; numbers],
            untold: vec![None; numbers],
            cpus,
            idle: cpus.len() as u32,
            period,
            begin,
            now: begin,
            period_end: begin + period,
            late: 0,
        }
    }

    /// Takes the next event. One that is older than its predecessor is taken as if it were as old, and counted
    /// ([`Accounting::late`]); one about a CPU or a workload that is not ours is left out.
    pub fn apply(&mut self, event: &Event) {
        if event.at < self.now && event.at >= self.begin {
            self.late += 1;
        }
        self.advance(event.at);
        let on_ours = self.cpus.contains(event.cpu);
        match event.what {
            Change::Switch { from, left, to } => {
                if on_ours {
                    self.doubt(event, from, left, to);
                }
                if let Task::Member(member) = from {
                    match left {
                        // A place seen since then is newer.
                        Left::Untold if self.place_of(member.tid) != Some(Place::Running(event.cpu)) => {}
                        Left::Untold => self.place(member, Place::Sleeping),
                        Left::Runnable if on_ours => self.place(member, Place::Waiting(event.cpu)),
                        Left::Runnable | Left::Blocked => self.place(member, Place::Sleeping),
                        Left::Dead => self.forget(member.tid),
                    }
                }
                if on_ours {
                    self.run(event.cpu, to);
                }
            }
            Change::Woke(member) if on_ours => match self.threads.get(&member.tid) {
                Some((_, Place::Running(_))) => {}
                _ => self.place(member, Place::Waiting(event.cpu)),
            },
            Change::Migrated(member) if on_ours => {
                if let Some((_, Place::Waiting(_))) = self.threads.get(&member.tid) {
                    self.place(member, Place::Waiting(event.cpu));
                }
            }
            Change::Born(member) => self.place(member, Place::Sleeping),
            Change::Seen(member, doing) => {
                if !self.threads.contains_key(&member.tid) {
                    self.see(member, doing, event.cpu, on_ours);
                }
            }
            Change::Holds(task) if on_ours => {
                if let None | Some(Holder::Other(0)) = self.holders[event.cpu.index()] {
                    self.run(event.cpu, task);
                }
            }
            Change::Unwatched(member) => self.forget(member.tid),
            Change::Woke(_) | Change::Migrated(_) | Change::Holds(_) => {}
        }
    }

    /// Ends the window and gives the settled accounts of each workload, in the order of the requests. The next window
    /// begins where this one ends.
    pub fn close(&mut self, end: Nanos) -> Vec<Settled> {
        self.advance(end);
        self.begin = self.now;
        self.period_end = self.now + self.period;
        self.late = 0;
        for cpu in 0..self.untold.len() {
            self.settle_doubt(cpu);
        }
        let settle = |book: &mut Book| {
            book.totals.settle(&std::mem::take(&mut book.period));
            let nanos = |(tid, milli): (i32, MilliCpuNanos)| (tid, Nanos((milli / 1000) as u64));
            Settled {
                account: std::mem::take(&mut book.totals).account(),
                doubt: std::mem::take(&mut book.doubt),
                takers: std::mem::take(&mut book.takers).into_iter().map(nanos).collect(),
            }
        };
        self.books.iter_mut().map(settle).collect()
    }

    /// Events that came after a younger one. A few are the clocks of different CPUs; many are a fault of the source.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Notes the start of an unknown holder, and the length of that time at the CPU's next switch.
    fn doubt(&mut self, event: &Event, from: Task, left: Left, to: Task) {
        self.settle_doubt(event.cpu.index());
        if left == Left::Untold {
            let between = [from, to].map(|task| match task {
                Task::Member(member) if usize::from(member.slot) < self.books.len() => Some(member.slot),
                _ => None,
            });
            self.untold[event.cpu.index()] = Some(Untold { since: event.at.max(self.begin), between });
        }
    }

    fn settle_doubt(&mut self, cpu: usize) {
        let Some(Untold { since, between: [one, other] }) = self.untold[cpu].take() else { return };
        for slot in one.into_iter().chain(other.filter(|_| one != other)) {
            self.books[usize::from(slot)].doubt += self.now.since(since);
        }
    }

    /// Lets time pass: nothing changes until `to`.
    fn advance(&mut self, to: Nanos) {
        while self.now < to {
            let step = to.min(self.period_end);
            self.accumulate(step.since(self.now).0);
            self.now = step;
            if step == self.period_end {
                for book in &mut self.books {
                    book.totals.settle(&std::mem::take(&mut book.period));
                }
                self.period_end += self.period;
            }
        }
    }

    fn accumulate(&mut self, nanos: u64) {
        let (span, all, idle) = (u128::from(nanos), self.cpus.len() as u32, self.idle);
        let holders = &self.holders;
        for (slot, book) in self.books.iter_mut().enumerate() {
            let milli = |threads: u32| u64::from(threads) * 1000;
            let (request, runnable) = (u64::from(book.request.0), book.running + book.waiting_all);
            let due = milli(runnable.min(all)).min(request);
            let short = due.saturating_sub(milli(book.running));
            let dispatch = short.min(milli(book.on_idle));
            let shared = (short - dispatch).min(milli(book.behind_others));
            let sums = &mut book.period;
            sums.requested += u128::from(request) * span;
            sums.demanded += u128::from(milli(runnable.min(all))) * span;
            sums.due += u128::from(due) * span;
            sums.got += u128::from(milli(book.running)) * span;
            sums.dispatch += u128::from(dispatch) * span;
            sums.shared += u128::from(shared) * span;
            if runnable > 0 {
                sums.phantom += u128::from(milli(idle - book.idle_awaited)) * span;
            }
            if shared > 0 {
                book.blame(slot as Slot, holders, u128::from(shared) * span);
            }
        }
    }

    /// The CPU runs this task from now on.
    fn run(&mut self, cpu: CpuId, task: Task) {
        // A CPU runs one thread: the one before has left, reported or not.
        if let Holder::Workload(slot, tid) = self.holder(cpu)
            && self.place_of(tid) == Some(Place::Running(cpu))
            && !matches!(task, Task::Member(member) if member.tid == tid)
        {
            self.place(Member { tid, slot }, Place::Sleeping);
        }
        match task {
            Task::Idle => self.hold(cpu, Holder::Idle),
            Task::Other(tid) => self.hold(cpu, Holder::Other(tid)),
            Task::Member(member) if usize::from(member.slot) < self.books.len() => {
                self.place(member, Place::Running(cpu));
                self.hold(cpu, Holder::Workload(member.slot, member.tid));
            }
            Task::Member(member) => self.hold(cpu, Holder::Other(member.tid)),
        }
    }

    fn place_of(&self, tid: i32) -> Option<Place> {
        self.threads.get(&tid).map(|(_, place)| *place)
    }

    fn see(&mut self, member: Member, doing: Doing, cpu: CpuId, on_ours: bool) {
        match doing {
            // A CPU of which an event said that it runs another watched thread, or none, has changed hands since the look.
            Doing::Running if on_ours && matches!(self.holders[cpu.index()], None | Some(Holder::Other(_))) => {
                self.run(cpu, Task::Member(member));
            }
            Doing::Running | Doing::Sleeping => self.place(member, Place::Sleeping),
            Doing::Waiting if on_ours => self.place(member, Place::Waiting(cpu)),
            Doing::Waiting => self.place(member, Place::Sleeping),
        }
    }

    /// Puts a thread where it is now.
    fn place(&mut self, member: Member, place: Place) {
        if usize::from(member.slot) >= self.books.len() {
            return;
        }
        self.leave(member.tid);
        self.threads.insert(member.tid, (member.slot, place));
        match place {
            Place::Running(_) => self.books[usize::from(member.slot)].running += 1,
            Place::Waiting(cpu) => self.wait(member.slot, cpu, true),
            Place::Sleeping => {}
        }
    }

    /// A thread is gone.
    fn forget(&mut self, tid: i32) {
        self.leave(tid);
        self.threads.remove(&tid);
    }

    /// Takes a thread out of the counts of where it was.
    fn leave(&mut self, tid: i32) {
        match self.threads.get(&tid) {
            Some(&(slot, Place::Running(_))) => self.books[usize::from(slot)].running -= 1,
            Some(&(slot, Place::Waiting(cpu))) => self.wait(slot, cpu, false),
            Some((_, Place::Sleeping)) | None => {}
        }
    }

    /// One thread more or less waits on this CPU.
    fn wait(&mut self, slot: Slot, cpu: CpuId, more: bool) {
        let holder = self.holder(cpu);
        let book = &mut self.books[usize::from(slot)];
        book.weigh(cpu, holder, slot, false);
        if more {
            book.waiting[cpu.index()] += 1;
        } else {
            book.waiting[cpu.index()] -= 1;
        }
        book.weigh(cpu, holder, slot, true);
    }

    /// The CPU changes hands.
    fn hold(&mut self, cpu: CpuId, holder: Holder) {
        let before = self.holder(cpu);
        self.holders[cpu.index()] = Some(holder);
        if before == holder {
            return;
        }
        self.idle -= u32::from(before == Holder::Idle);
        self.idle += u32::from(holder == Holder::Idle);
        for (slot, book) in self.books.iter_mut().enumerate() {
            if book.waiting[cpu.index()] > 0 {
                book.weigh(cpu, before, slot as Slot, false);
                book.weigh(cpu, holder, slot as Slot, true);
            }
        }
    }

    fn holder(&self, cpu: CpuId) -> Holder {
        self.holders[cpu.index()].unwrap_or(Holder::Idle)
    }
}

impl Book {
    /// Adds the threads that wait on a CPU to the counts, or removes them, given that CPU's holder.
    fn weigh(&mut self, cpu: CpuId, holder: Holder, slot: Slot, add: bool) {
        let threads = self.waiting[cpu.index()];
        let change = |count: &mut u32, by: u32| if add { *count += by } else { *count -= by };
        change(&mut self.waiting_all, threads);
        match holder {
            Holder::Idle => {
                change(&mut self.on_idle, threads);
                change(&mut self.idle_awaited, u32::from(threads > 0));
            }
            Holder::Other(_) => change(&mut self.behind_others, threads),
            Holder::Workload(owner, _) if owner != slot => change(&mut self.behind_others, threads),
            Holder::Workload(..) => {}
        }
    }

    /// Distributes the loss to others among the holders of the CPUs on which its threads wait, a part a waiting thread.
    fn blame(&mut self, slot: Slot, holders: &[Option<Holder>], mut lost: MilliCpuNanos) {
        let mut threads = u128::from(self.behind_others);
        for (&waiting, holder) in self.waiting.iter().zip(holders) {
            let taker = match holder {
                Some(Holder::Other(tid)) => *tid,
                Some(Holder::Workload(owner, tid)) if *owner != slot => *tid,
                _ => continue,
            };
            if waiting > 0 && threads > 0 {
                let part = lost * u128::from(waiting) / threads;
                *self.takers.entry(taker).or_default() += part;
                lost -= part;
                threads -= u128::from(waiting);
            }
        }
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
pub(crate) mod tests;
