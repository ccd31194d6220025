//! Finds new threads and gives them their workload's values.

use quell_model::{Event, Nanos, ThreadId, ThreadState, WorkloadId};

use super::{LinuxHost, Thread};
use crate::members::Found;
use crate::procfs::{SchedStat, ticks};
use crate::{LinuxError, sysfs};

/// Looking for threads takes at most a twentieth of a CPU where somebody waits for them …
const PROMPT_SHARE: u64 = 20;
/// … and a hundredth where they are only counted.
const COUNTING_SHARE: u64 = 100;

impl LinuxHost {
    /// Is it time to look for new threads?
    pub(super) fn scan_due(&self, now: Nanos) -> bool {
        self.next_scan().is_none_or(|at| now >= at)
    }

    /// When to look for new threads; None: at once. On a machine with thousands of processes looking takes
    /// milliseconds: then it is done less often, so that it takes no more than its share of a CPU.
    pub(super) fn next_scan(&self) -> Option<Nanos> {
        if self.options.scan_interval == Nanos::ZERO {
            return self.scanned_at;
        }
        let share = if self.some_on_threads() || self.threads_wanted { PROMPT_SHARE } else { COUNTING_SHARE };
        Some(self.scanned_at? + self.options.scan_interval.max(Nanos(self.scan_cost.0 * share)))
    }

    /// Something changed that only a scan can find out: the next look at the machine begins with one.
    pub(super) fn selectors_changed(&mut self) {
        self.members.selectors_changed();
        self.scanned_at = None;
    }

    /// Looks for threads that were born or died, for CPUs that came or went, and for cgroups that were made again.
    pub(super) fn scan(&mut self, now: Nanos) -> Result<(), LinuxError> {
        self.scanned_at = Some(now);
        let begun = cpu_time();
        let result = self.look_for_changes(now);
        self.scan_cost = cpu_time() - begun;
        result
    }

    fn look_for_changes(&mut self, now: Nanos) -> Result<(), LinuxError> {
        self.scan_cpus()?;
        let mut dirty = self.scan_groups();
        let unsettled = std::mem::take(&mut self.unsettled);
        dirty.extend(&unsettled);
        let mut found = std::mem::take(&mut self.found);
        let result = self.members.scan(&mut self.proc, &self.selectors, now, &mut found);
        if result.is_ok() {
            self.merge(&found, &mut dirty)?;
        }
        self.found = found;
        result?;
        self.count_threads();
        if !dirty.is_empty() {
            dirty.sort_unstable();
            dirty.dedup();
            self.reapply(&dirty, &unsettled);
        }
        Ok(())
    }

    /// Two ascending lists: the threads that are known and those that were found.
    fn merge(&mut self, found: &[Found], dirty: &mut Vec<WorkloadId>) -> Result<(), LinuxError> {
        let unchanged = self.threads.len() == found.len()
            && self.threads.iter().zip(found).all(|(known, found)| {
                (known.id.tid, known.pid, known.workload) == (found.tid, found.pid, found.workload) && !known.is_dead()
            });
        if unchanged {
            return Ok(());
        }
        let before: Vec<i32> = self.threads.iter().map(|thread| thread.id.tid).collect();
        let mut known = std::mem::take(&mut self.threads).into_iter().peekable();
        let mut threads = Vec::with_capacity(found.len());
        for found in found {
            while let Some(dead) = known.next_if(|known| known.id.tid < found.tid) {
                self.died(&dead);
            }
            let same = known.next_if(|known| known.id.tid == found.tid);
            if let Some(known) = same {
                if (known.pid, known.workload) == (found.pid, found.workload) && !known.is_dead() {
                    threads.push(known);
                    continue;
                }
                self.died(&known);
            }
            if let Some(thread) = self.born(found, &before)? {
                threads.push(thread);
                dirty.push(thread.workload);
            }
        }
        known.for_each(|dead| self.died(&dead));
        self.threads = threads;
        Ok(())
    }

    /// A thread that is new; `before` are the numbers of those that were there at the last scan, ascending.
    fn born(&mut self, found: &Found, before: &[i32]) -> Result<Option<Thread>, LinuxError> {
        let stat = self.proc.stat(found.pid, found.tid)?;
        // A dead one that its parent has not asked for yet is still listed.
        let Some(stat) = stat.filter(|stat| stat.state != ThreadState::Dead) else { return Ok(None) };
        let counted = self.proc.schedstat(found.pid, found.tid)?;
        let run = counted.unwrap_or(SchedStat { run_time: ticks(stat.ticks), ..SchedStat::default() });
        let id = ThreadId { tid: found.tid, start: stat.start };
        let Some(managed) = self.slots.get_mut(found.workload.index()).and_then(Option::as_mut) else {
            return Ok(None);
        };
        // A program that was started by somebody else, and is found with all its threads at once, inherited nothing.
        let is_ours = |pid: i32| before.binary_search(&pid).is_ok();
        let joined = self.members.is_explicit(found.pid) && !is_ours(found.pid) && !is_ours(stat.parent);
        let born_under = (self.adopted || !managed.history.is_empty()) && !joined;
        if managed.scanned {
            // Born since the workload attached: all its time counts.
            managed.run_time += run.run_time;
            managed.run_delay += run.run_delay;
        }
        self.pending.push(Event::ThreadBorn(found.workload, id));
        Ok(Some(Thread {
            id,
            pid: found.pid,
            parent: stat.parent,
            workload: found.workload,
            born_under,
            state: stat.state,
            cpu: stat.cpu,
            class: stat.class,
            run,
            exact: counted.is_some(),
        }))
    }

    fn died(&mut self, thread: &Thread) {
        self.ledger.forget_thread(thread.id);
        self.overrides.remove(&thread.id);
        if self.managed(thread.workload).is_some() {
            self.pending.push(Event::ThreadDied(thread.workload, thread.id));
        }
    }

    fn count_threads(&mut self) {
        self.slots.iter_mut().flatten().for_each(|managed| (managed.threads, managed.scanned) = (0, true));
        for thread in &self.threads {
            if let Some(managed) = self.slots.get_mut(thread.workload.index()).and_then(Option::as_mut) {
                managed.threads += 1;
            }
        }
    }

    fn scan_cpus(&mut self) -> Result<(), LinuxError> {
        let online = sysfs::online(&self.roots.sys)?;
        if online != self.online {
            self.pending.extend(self.online.difference(&online).iter().map(Event::Offline));
            self.pending.extend(online.difference(&self.online).iter().map(Event::Online));
            self.online = online;
        }
        Ok(())
    }

    /// The workloads whose cgroup is another one now than at the last scan.
    fn scan_groups(&mut self) -> Vec<WorkloadId> {
        let mut again = Vec::new();
        for (id, resolved) in &mut self.selectors {
            for group in resolved.groups.iter_mut().filter_map(|group| group.refresh().then_some(group)) {
                self.ledger.forget_group(&group.path);
                again.push(*id);
            }
        }
        again
    }
}

/// CPU time of the calling thread: what others did meanwhile is not the scan's cost.
fn cpu_time() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

impl Thread {
    /// Was it seen dead, or its number with another start time?
    fn is_dead(&self) -> bool {
        self.state == ThreadState::Dead
    }
}
