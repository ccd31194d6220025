//! What programs that cooperate say of themselves, and what they are notified of: `quell_page` is the layout.

mod numbers;

use quell_model::{Nanos, Sample, ThreadId, View, WorkloadId};
use quell_page::{SIZE, Worker};

use self::numbers::Numbers;

use crate::members::Members;
use crate::pages::{Notice, Pages};

/// A process that was attached by its cgroup has to be found by a scan within this time.
const FOUND_WITHIN: Nanos = Nanos::from_secs(5);

/// A process that has pages.
#[derive(Debug)]
struct Program {
    number: u64,
    process: ThreadId,
    workload: WorkloadId,
    pages: Pages,
    since: Nanos,
    /// Did a scan find it among the workload's threads?
    was_found: bool,
    workers: u32,
    strangers: u32,
    delay: Nanos,
    numbers: Numbers,
}

/// A worker of a program, by the number of its thread here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Working {
    /// The thread.
    pub tid: i32,
    /// Start of the request that it runs; None: it runs none.
    pub request: Option<Nanos>,
}

/// What the programs of a workload export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exporting {
    /// Processes that have pages.
    pub processes: u32,
    /// Their workers.
    pub workers: u32,
    /// Of those, workers whose threads are not known, or are not their process's: what they say of requests does not count.
    pub strangers: u32,
}

/// The programs that have pages.
#[derive(Debug)]
pub(crate) struct Exported {
    programs: Vec<Program>,
    buffer: Box<[u8; SIZE]>,
    /// Those of processes that are the workload's no more, by number.
    ended: Vec<u64>,
    /// By slot: did the workload ever hold a CPU that was granted to it?
    held: Vec<bool>,
    /// The workers whose threads are known; ascending by thread.
    working: Vec<Working>,
}

impl Default for Exported {
    fn default() -> Exported {
        let (programs, ended, held, working) = <_>::default();
        Exported { programs, buffer: Box::new([0; SIZE]), ended, held, working }
    }
}

impl Exported {
    pub fn take(&mut self, number: u64, workload: WorkloadId, process: ThreadId, pages: Pages, now: Nanos) {
        let (since, was_found, numbers) = (now, false, Numbers::default());
        let (workers, strangers, delay) = (0, 0, Nanos::ZERO);
        let new = Program { number, process, workload, pages, since, was_found, workers, strangers, delay, numbers };
        self.programs.push(new);
    }

    /// Another workload has this slot from now on.
    pub fn begin(&mut self, id: WorkloadId) {
        *super::of_slot(&mut self.held, id) = false;
    }

    pub fn let_go(&mut self, number: u64) {
        self.programs.retain(|program| program.number != number);
    }

    /// Those that ended, or are another workload's, since the last call.
    pub fn ended(&mut self) -> std::vec::Drain<'_, u64> {
        self.ended.drain(..)
    }

    pub fn exporting(&self, id: WorkloadId) -> Exporting {
        let of_it = self.programs.iter().filter(|program| program.workload == id);
        of_it.fold(Exporting::default(), |sum, program| Exporting {
            processes: sum.processes + 1,
            workers: sum.workers + program.workers,
            strangers: sum.strangers + program.strangers,
        })
    }

    /// The workers whose threads are known, as of the last copies; ascending by thread.
    pub fn working(&self) -> &[Working] {
        &self.working
    }

    /// Does each latency-critical workload have a program that exports?
    pub fn covers(&self, members: &Members) -> bool {
        let exports =
            |id| self.programs.iter().any(|program| program.workload == id && program.workers > program.strangers);
        let mut critical = members.workloads().filter(|(_, workload)| workload.is_lc()).peekable();
        critical.peek().is_some() && critical.all(|(id, _)| exports(id))
    }

    /// Copies each page once. `requests`: are the starts of requests wanted?
    pub fn read(&mut self, members: &mut Members, requests: bool, now: Nanos) {
        self.working.clear();
        if self.programs.is_empty() {
            return;
        }
        let ended = &mut self.ended;
        self.programs.retain_mut(|program| {
            let stays = program.is_there(members, now);
            if !stays {
                ended.push(program.number);
            }
            stays
        });
        // At most one file is read in a step, which lasts microseconds.
        let mut may_learn = requests;
        for program in &mut self.programs {
            // Until then it is the workload's by its cgroup or parent alone, and says nothing for it.
            if !program.was_found {
                continue;
            }
            may_learn = may_learn && !program.learn(members);
            let Some(copied) = program.pages.copy(now, &mut self.buffer) else {
                (program.workers, program.strangers, program.delay) = (0, 0, Nanos::ZERO);
                continue;
            };
            let seen = copied.seen();
            (program.workers, program.strangers, program.delay) = (seen.workers, 0, Nanos(seen.delay));
            if requests {
                let found = copied.workers().map(|(_, worker)| program.working(worker, members));
                let before = self.working.len();
                self.working.extend(found.flatten());
                program.strangers = seen.workers - (self.working.len() - before) as u32;
            }
        }
        self.working.sort_unstable_by_key(|worker| worker.tid);
    }

    /// Lets the delays count: the larger of the kernel's figure and the program's.
    pub fn merge(&self, view: &mut View) {
        let now = view.now;
        for program in self.programs.iter().filter(|program| program.workers > 0) {
            if let Some(delay) = view.workloads.queueing_delay.get_mut(program.workload.index()) {
                let known = delay.usable().unwrap_or_default();
                *delay = Sample::exact(known.max(program.delay), now);
            }
        }
    }

    /// Writes into each program's page how many CPUs its workload has. `kept_on`: those that its threads are kept on.
    pub fn notify(&mut self, members: &Members, view: &View, kept_on: impl Fn(WorkloadId) -> u32) {
        for program in &self.programs {
            let (Some(member), id) = (members.get(program.workload), program.workload) else { continue };
            let holds = view.cpus.holder.iter().filter(|holder| **holder == Some(id)).count() as u32;
            let held = super::of_slot(&mut self.held, id);
            *held |= holds > 0;
            let allowed = view.allowance(id).and_then(|allowance| allowance.most());
            let most = [Some(kept_on(id) * 1000), member.spec.limit.map(|limit| limit.0), allowed.map(|most| most.0)];
            let limit = most.into_iter().flatten().min().unwrap_or(0).max(1);
            let granted = if *held { (holds * 1000).clamp(1, limit) } else { limit };
            let guaranteed = if member.spec.is_lc() { member.spec.cpus.0.min(limit) } else { 0 };
            // A worker a CPU: those beyond are asked to leave.
            let room = granted.div_ceil(1000) as usize;
            program.pages.notify(Notice { granted, guaranteed, limit }, |at| at >= room);
        }
    }
}

impl Program {
    /// Learns which thread one more of its numbers means. Returns whether that took a look.
    fn learn(&mut self, members: &mut Members) -> bool {
        let Members { proc, threads, threads_changed, .. } = members;
        self.numbers.learn(self.process.tid, threads, *threads_changed, proc)
    }

    fn working(&self, worker: Worker, members: &Members) -> Option<Working> {
        let thread = self.numbers.thread(self.process.tid, worker.tid, members)?;
        Some(Working { tid: thread.id.tid, request: worker.request.map(Nanos) })
    }

    /// Is its process still the workload's?
    fn is_there(&mut self, members: &Members, now: Nanos) -> bool {
        if members.get(self.workload).is_none() {
            return false;
        }
        let found = members.thread(self.process.tid);
        let is_it = found.is_some_and(|thread| thread.id == self.process && thread.workload == self.workload);
        self.was_found |= is_it;
        is_it || (!self.was_found && now < self.since + FOUND_WITHIN)
    }
}
