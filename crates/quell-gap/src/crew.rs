//! The threads that are watched: found by the workloads' selectors, and read from procfs.

use std::collections::{BTreeMap, BTreeSet};

use quell_linux::{Census, Counted};
use quell_model::{Selector, ThreadState};
use quell_thread::clock::now;
use quell_trace::Member;

use crate::GapError;
use crate::machine::Machine;
use crate::sample::{MachineTimes, Sample, ThreadTimes};

/// A thread stays with the workload in which it was found, until it ends.
pub(crate) struct Crew {
    census: Census,
    /// By thread: its process and its workload.
    threads: BTreeMap<i32, (i32, u16)>,
    newcomers: Vec<Member>,
}

impl Crew {
    pub fn open(machine: &Machine, selectors: Vec<Vec<Selector>>) -> Result<Crew, GapError> {
        let census = Census::open(&machine.proc, machine.hierarchies.clone(), selectors)?;
        Ok(Crew { census, threads: BTreeMap::new(), newcomers: Vec::new() })
    }

    pub fn threads_of(&self, slot: usize) -> usize {
        self.threads.values().filter(|(_, of)| usize::from(*of) == slot).count()
    }

    /// Those that were found since the last call, by whatever look.
    pub fn newcomers(&mut self) -> Vec<Member> {
        std::mem::take(&mut self.newcomers)
    }

    /// Looks for threads.
    pub fn find(&mut self) -> Result<(), GapError> {
        let found = self.census.scan()?;
        let seen: BTreeSet<i32> = found.iter().map(|thread| thread.tid).collect();
        for Counted { tid, pid, slot } in found {
            self.add(tid, pid, slot);
        }
        // A number may come again, for another thread.
        let mut ended = Vec::new();
        for (&tid, &(pid, _)) in self.threads.iter().filter(|(tid, _)| !seen.contains(tid)) {
            if self.census.proc().schedstat(pid, tid)?.is_none() {
                ended.push(tid);
            }
        }
        self.forget(&ended);
        Ok(())
    }

    /// Reads the times of the threads, and their states if wanted.
    pub fn sample(&mut self, machine: &Machine, with_state: bool) -> Result<Sample, GapError> {
        let mut sample = Sample { at: now(), ..Sample::default() };
        sample.machine = MachineTimes::read(&machine.proc, &machine.cpus)?;
        // Threads that were created since the last scan in known processes.
        let processes: BTreeMap<i32, u16> = self.threads.values().copied().collect();
        let mut tids = Vec::new();
        for (&pid, &slot) in &processes {
            tids.clear();
            self.census.proc().threads(pid, &mut tids)?;
            for &tid in &tids {
                self.add(tid, pid, slot);
            }
        }
        let mut ended = Vec::new();
        for (&tid, &(pid, slot)) in &self.threads {
            match self.census.proc().schedstat(pid, tid)? {
                Some(times) => {
                    let state = if with_state { self.census.proc().stat(pid, tid)? } else { None };
                    let runnable = state.is_some_and(|stat| stat.state == ThreadState::Runnable);
                    sample.threads.push(ThreadTimes {
                        tid,
                        slot,
                        run: times.run_time,
                        delay: times.run_delay,
                        runnable,
                    });
                }
                None => ended.push(tid),
            }
        }
        self.forget(&ended);
        sample.read = now();
        Ok(sample)
    }

    fn add(&mut self, tid: i32, pid: i32, slot: u16) {
        if let std::collections::btree_map::Entry::Vacant(vacant) = self.threads.entry(tid) {
            vacant.insert((pid, slot));
            self.newcomers.push(Member { tid, slot });
        }
    }

    fn forget(&mut self, ended: &[i32]) {
        for tid in ended {
            self.threads.remove(tid);
        }
    }
}
