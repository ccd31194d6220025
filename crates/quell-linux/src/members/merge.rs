//! The threads that a scan found beside those that are known.

use quell_model::{Event, Nanos, ThreadId, ThreadState};

use super::before::Before;
use super::departure::{Fate, fate, why};
use super::scan::News;
use super::{Finder, Found, Members, Thread, resolved};
use crate::LinuxError;
use crate::procfs::{SchedStat, ticks};

impl Members {
    /// Two ascending lists: the threads that are known and those that were found.
    pub(super) fn merge(&mut self, found: &[Found], now: Nanos, news: &mut News) -> Result<(), LinuxError> {
        let finder = &self.search.finder;
        let certain = finder.all_certain();
        let is_same =
            |(known, found): (&Thread, &Found)| known.is(found) && (certain || !finder.is_doubtful(found.tid));
        if self.threads.len() == found.len() && self.threads.iter().zip(found).all(is_same) {
            return Ok(());
        }
        let before = Before::of(&self.threads);
        let mut known = std::mem::take(&mut self.threads).into_iter().peekable();
        let mut threads = Vec::with_capacity(found.len());
        let reported = news.died.len() + news.left.len();
        let first_left = news.left.len();
        let (mut born, mut result) = (0, Ok(()));
        for found in found {
            match self.merge_one(found, &mut known, &before, now, news) {
                Ok(Some(thread)) => {
                    born += usize::from(thread.is_new);
                    threads.push(thread.thread);
                }
                Ok(None) => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        while let (true, Some(missing)) = (result.is_ok(), known.peek()) {
            result = self.missed(&{ *missing }, now, news);
            if result.is_ok() {
                known.next();
            }
        }
        // What could not be read is as it was.
        threads.extend(known);
        self.threads = threads;
        for at in first_left..news.left.len() {
            let added = self.add_those_born_since(at, &before, news);
            result = result.and(added);
        }
        self.threads_changed += u64::from(born + news.died.len() + news.left.len() > reported);
        result
    }

    /// A thread that was found; what is known is taken when it was read. None: it has ended meanwhile.
    fn merge_one(
        &mut self,
        found: &Found,
        known: &mut Known,
        before: &Before,
        now: Nanos,
        news: &mut News,
    ) -> Result<Option<Merged>, LinuxError> {
        while let Some(missing) = known.peek().copied().filter(|known| known.id.tid < found.tid) {
            self.missed(&missing, now, news)?;
            known.next();
        }
        let mut was_elsewhere = false;
        if let Some(same) = known.peek().copied().filter(|known| known.id.tid == found.tid) {
            if is_same_still(&same, found, &self.search.finder) {
                known.next();
                return Ok(Some(Merged { thread: same, is_new: false }));
            }
            let stat = self.proc.stat(found.pid, found.tid)?;
            known.next();
            match fate(same.id, same.is(found), stat.as_ref()) {
                Fate::There => return Ok(Some(Merged { thread: same, is_new: false })),
                Fate::Left => {
                    was_elsewhere = true;
                    self.left(&same, now, news);
                }
                Fate::Ended => self.died(&same, news),
            }
        }
        let Some(thread) = self.born(found, before, news)? else { return Ok(None) };
        news.dirty.push(thread.workload);
        // What moved from one workload to another has its own values again by then.
        let thread = Thread { born_under: thread.born_under && !was_elsewhere, ..thread };
        Ok(Some(Merged { thread, is_new: true }))
    }

    /// A thread was not found again.
    fn missed(&mut self, thread: &Thread, now: Nanos, news: &mut News) -> Result<(), LinuxError> {
        let stat = self.proc.stat(thread.pid, thread.id.tid)?;
        match fate(thread.id, false, stat.as_ref()) {
            Fate::Ended => self.died(thread, news),
            Fate::Left | Fate::There => self.left(thread, now, news),
        }
        Ok(())
    }

    /// A thread that is new; `before` are those that were there at the last scan.
    fn born(&mut self, found: &Found, before: &Before, news: &mut News) -> Result<Option<Thread>, LinuxError> {
        let stat = self.proc.stat(found.pid, found.tid)?;
        // A dead one that its parent has not asked for yet is still listed.
        let Some(stat) = stat.filter(|stat| stat.state != ThreadState::Dead) else { return Ok(None) };
        let counted = self.proc.schedstat(found.pid, found.tid)?;
        let run = counted.unwrap_or(SchedStat { run_time: ticks(stat.ticks), ..SchedStat::default() });
        let id = ThreadId { tid: found.tid, start: stat.start };
        // What was there at the last look, and was no workload's or left one then, has its own values.
        let is_older = self.search.taken_at.is_some_and(|at| stat.start < at);
        let is_old = is_older && !self.search.adopted;
        let born_of = match is_old {
            true => None,
            false => before.creator_of(&mut self.proc, &self.search.finder, found.pid, &stat)?,
        };
        let Ok(member) = self.get_mut(found.workload) else { return Ok(None) };
        member.departures.returned(found.pid);
        // A program that another process started, and that is found with all its threads at once, inherited nothing.
        let joined = is_old || found.explicit && born_of.is_none();
        let has_history = !member.history.is_empty();
        // Born since the workload attached: all its time counts. What came from elsewhere counts from now on.
        let run = if member.scanned && !is_older { SchedStat::default() } else { run };
        news.events.push(Event::ThreadBorn(found.workload, id));
        Ok(Some(Thread {
            id,
            pid: found.pid,
            parent: stat.parent,
            creator: before.thread(stat.parent).filter(|creator| creator.start <= stat.start),
            workload: found.workload,
            explicit: found.explicit,
            born_under: (self.search.adopted || has_history || born_of.is_some_and(|id| id != found.workload))
                && !joined,
            born_of,
            state: stat.state,
            cpu: stat.cpu,
            class: stat.class,
            run,
            exact: counted.is_some(),
        }))
    }

    fn died(&self, thread: &Thread, news: &mut News) {
        news.died.push(thread.id);
        if self.get(thread.workload).is_some() {
            news.events.push(Event::ThreadDied(thread.workload, thread.id));
        }
    }

    fn left(&mut self, thread: &Thread, now: Nanos, news: &mut News) {
        news.left.push(*thread);
        let Members { slots, selectors, proc, roots, .. } = self;
        let Some(member) = slots.get_mut(thread.workload.index()).and_then(Option::as_mut) else { return };
        news.events.push(Event::ThreadLeft(thread.workload, thread.id));
        if let Some(resolved) = resolved(selectors, thread.workload).filter(|_| !member.has_new_selectors) {
            member.departures.note(thread, why(proc, &roots.cgroup, resolved, thread), now);
        }
    }

    /// Threads that a process which left had created since the last scan may have inherited values, and leave as well.
    fn add_those_born_since(&mut self, at: usize, before: &Before, news: &mut News) -> Result<(), LinuxError> {
        let left = news.left[at];
        let mut tids = Vec::new();
        self.proc.threads(left.pid, &mut tids)?;
        for tid in tids {
            let Some(stat) = self.proc.stat(left.pid, tid)? else { continue };
            let id = ThreadId { tid, start: stat.start };
            let is_known = before.threads.binary_search(&id).is_ok()
                || self.thread(tid).is_some_and(|known| known.id == id)
                || news.left.iter().any(|other| other.id == id);
            if !is_known {
                news.left.push(Thread { id, parent: stat.parent, born_under: true, ..left });
            }
        }
        Ok(())
    }
}

/// The threads of the last scan that were not compared yet.
type Known = std::iter::Peekable<std::vec::IntoIter<Thread>>;

/// A thread of this scan.
struct Merged {
    thread: Thread,
    is_new: bool,
}

fn is_same_still(known: &Thread, found: &Found, finder: &Finder) -> bool {
    known.is(found) && !finder.is_doubtful(found.tid)
}
