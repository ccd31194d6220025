//! What programs that cooperate say of themselves, and what they are notified of: `quell_page` is the layout.

use quell_model::{Nanos, Sample, ThreadId, View, WorkloadId};
use quell_page::SIZE;

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
    delay: Nanos,
}

/// What the programs of a workload export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exporting {
    /// Processes that have pages.
    pub processes: u32,
    /// Their workers.
    pub workers: u32,
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
}

impl Default for Exported {
    fn default() -> Exported {
        Exported { programs: Vec::new(), buffer: Box::new([0; SIZE]), ended: Vec::new(), held: Vec::new() }
    }
}

impl Exported {
    pub fn take(&mut self, number: u64, workload: WorkloadId, process: ThreadId, pages: Pages, now: Nanos) {
        let (since, was_found, workers, delay) = (now, false, 0, Nanos::ZERO);
        self.programs.push(Program { number, process, workload, pages, since, was_found, workers, delay });
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
        })
    }

    /// Copies each page once, and lets the delays count: the larger of the kernel's figure and the program's.
    pub fn merge(&mut self, members: &Members, view: &mut View) {
        if self.programs.is_empty() {
            return;
        }
        let now = view.now;
        let ended = &mut self.ended;
        self.programs.retain_mut(|program| {
            let stays = program.is_there(members, now);
            if !stays {
                ended.push(program.number);
            }
            stays
        });
        for program in &mut self.programs {
            let Some(copied) = program.pages.copy(now, &mut self.buffer) else {
                (program.workers, program.delay) = (0, Nanos::ZERO);
                continue;
            };
            let seen = copied.seen();
            (program.workers, program.delay) = (seen.workers, Nanos(seen.delay));
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
