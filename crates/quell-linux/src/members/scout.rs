//! Long walks over the processes, by an ordinary thread: the loop, which may be a real-time thread, goes on meanwhile.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::Builder;

use quell_model::{Nanos, WorkloadId};
use quell_thread::class::{Class, become_class};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{Finder, Found, Resolved};
use crate::procfs::ProcFs;
use crate::{LinuxError, clock};

/// A walk that takes more CPU time than this is the scout's.
pub(super) const LOOPS_SHARE: Nanos = Nanos::from_millis(2);
/// A walk that takes longer than this by the clock is the scout's, too, however little CPU time it takes: what it reads makes it
/// wait, and the loop with it.
const LOOPS_TIME: Nanos = Nanos::from_millis(50);
/// The loop asks for the report so often.
pub(super) const ASK_EVERY: Nanos = Nanos::from_millis(2);

/// The calling thread is of the ordinary class and may run on any CPU.
pub(super) fn become_ordinary() -> io::Result<()> {
    become_class(Class::Normal)?;
    let mut cpus = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| cpus.set(cpu));
    Ok(sched_setaffinity(None, &cpus)?)
}

/// A walk that has begun.
pub(super) struct Walk {
    cpu_time: Nanos,
    at: Nanos,
}

impl Walk {
    /// Begins now.
    pub fn begin() -> Walk {
        Walk { cpu_time: clock::cpu_time(), at: clock::now() }
    }

    /// Its cost: the CPU time, or what makes it the scout's.
    pub fn cost(&self) -> Nanos {
        cost(clock::cpu_time() - self.cpu_time, clock::now() - self.at)
    }
}

fn cost(cpu_time: Nanos, time: Nanos) -> Nanos {
    if time > LOOPS_TIME { cpu_time.max(LOOPS_SHARE + Nanos(1)) } else { cpu_time }
}

/// What to look for, with what is known of the processes.
struct Errand {
    finder: Finder,
    workloads: Vec<(WorkloadId, Resolved)>,
    now: Nanos,
}

/// What the scout found.
pub(super) struct Report {
    /// With what is known of the processes now.
    pub finder: Finder,
    pub found: Vec<Found>,
    /// CPU time.
    pub cost: Nanos,
    pub result: Result<(), LinuxError>,
}

/// The scout is away, looking.
#[derive(Debug)]
pub(super) struct Away {
    pub since: Nanos,
    /// The loop asks for the report at this time.
    pub ask_at: Nanos,
    /// Does the loop know of a change that the scout cannot have seen? Then its report is not taken.
    pub outdated: bool,
}

/// The thread. It ends with this.
#[derive(Debug)]
pub(super) struct Scout {
    errands: Sender<Errand>,
    reports: Receiver<Report>,
}

impl Scout {
    /// Starts it. It may run anywhere: the loop may be bound to a CPU that it never leaves.
    ///
    /// # Errors
    /// If procfs cannot be opened or no thread can be started.
    pub fn start(root: &Path) -> Result<Scout, LinuxError> {
        let mut proc = ProcFs::open(root)?;
        let (errands, asked) = channel::<Errand>();
        let (sender, reports) = channel();
        let work = move || {
            if let Err(error) = become_ordinary() {
                tracing::warn!(%error, "the thread that scans for threads gets the loop's scheduling");
            }
            for mut errand in asked {
                let (begun, mut found) = (Walk::begin(), Vec::new());
                let result = errand.finder.scan(&mut proc, &errand.workloads, errand.now, &mut found);
                let cost = begun.cost();
                if sender.send(Report { finder: errand.finder, found, cost, result }).is_err() {
                    return;
                }
            }
        };
        let started = Builder::new().name("quell-scout".into()).spawn(work);
        started.map_err(LinuxError::io("start a thread that scans", root))?;
        Ok(Scout { errands, reports })
    }

    /// Sends it on an errand. False if it is gone.
    pub fn send(&self, finder: Finder, workloads: Vec<(WorkloadId, Resolved)>, now: Nanos) -> bool {
        self.errands.send(Errand { finder, workloads, now }).is_ok()
    }

    /// Its report.
    ///
    /// # Errors
    /// True: it is still away. False: the thread has ended.
    pub fn report(&self) -> Result<Report, bool> {
        self.reports.try_recv().map_err(|why| why == TryRecvError::Empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_that_waits_for_what_it_reads_is_not_the_loops() {
        let ms = Nanos::from_millis;
        assert_eq!(cost(ms(1), ms(40)), ms(1), "a busy machine");
        assert!(cost(ms(1), ms(60)) > LOOPS_SHARE);
        assert_eq!(cost(ms(9), ms(60)), ms(9));
    }
}
