//! How many processes may have pages, of a workload, of a user, and altogether.

use quell_linux::pages::Memory;
use quell_model::{Nanos, WorkloadId};

/// Of a workload.
const OF_A_WORKLOAD: usize = 64;
/// Of a user, whatever the workloads.
const OF_A_USER: usize = 128;
/// Altogether: each takes four descriptors of the agent's.
const ALTOGETHER: usize = 192;

/// A process that has pages, as far as it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub workload: WorkloadId,
    pub user: u32,
}

impl Counted {
    /// Why this one cannot have pages beside those that have; None: it can.
    pub fn objection(self, others: impl Iterator<Item = Counted>) -> Option<String> {
        let (mut all, mut of_workload, mut of_user) = (0, 0, 0);
        for other in others {
            all += 1;
            of_workload += usize::from(other.workload == self.workload);
            of_user += usize::from(other.user == self.user);
        }
        let (of, most) = match () {
            () if of_workload >= OF_A_WORKLOAD => ("its workload", OF_A_WORKLOAD),
            () if of_user >= OF_A_USER => ("its user", OF_A_USER),
            () if all >= ALTOGETHER => ("the machine", ALTOGETHER),
            () => return None,
        };
        Some(format!(
            "{most} processes of {of} export already, and more may not: export from the processes that take requests"
        ))
    }
}

/// Memory of pages that were given up, which processes have yet: it is the agent's to the kernel, so it counts as pages do. Who hands
/// descriptors on, and asks again and again, fills no memory but its own places.
#[derive(Debug, Default)]
pub struct Left(Vec<(Counted, Memory, Nanos)>);

/// For this time it counts where the kernel does not say whether a process has it.
const UNKNOWN: Nanos = Nanos::from_secs(600);

impl Left {
    pub fn take(&mut self, counted: Counted, memory: Memory, now: Nanos) {
        self.0.push((counted, memory, now));
        self.look(now);
    }

    /// Forgets what no process has any more.
    pub fn look(&mut self, now: Nanos) {
        self.0.retain(|(_, memory, since)| memory.is_elsewhere().unwrap_or(now < *since + UNKNOWN));
    }

    pub fn counted(&self) -> impl Iterator<Item = Counted> {
        self.0.iter().map(|(counted, ..)| *counted)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

const SECOND: Nanos = Nanos::from_secs(1);

/// What there may be of something in a second, of a user and altogether; and what there was in this one.
#[derive(Debug)]
pub struct Pace {
    of_a_user: u32,
    altogether: usize,
    since: Nanos,
    asked: Vec<u32>,
}

impl Pace {
    fn of(of_a_user: u32, altogether: usize) -> Pace {
        Pace { of_a_user, altogether, since: Nanos::ZERO, asked: Vec::new() }
    }

    /// Questions to the loop.
    pub fn of_questions() -> Pace {
        Pace::of(16, 64)
    }

    /// Connections.
    pub fn of_connections() -> Pace {
        Pace::of(256, 1024)
    }

    /// May this user's process do it now? Counts it then.
    pub fn allows(&mut self, user: u32, now: Nanos) -> bool {
        if now >= self.since + SECOND {
            self.since = now;
            self.asked.clear();
        }
        let of_user = self.asked.iter().filter(|asked| **asked == user).count() as u32;
        let may = of_user < self.of_a_user && self.asked.len() < self.altogether;
        if may {
            self.asked.push(user);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_counts_by_itself() {
        let of = |workload, user| Counted { workload: WorkloadId(workload), user };
        let objection = |one: Counted, others: Vec<Counted>| one.objection(others.into_iter()).unwrap_or_default();
        let one_workload = |count| (0..count).map(|user| of(0, user)).collect::<Vec<_>>();
        assert_eq!(objection(of(0, 999), one_workload(63)), "");
        assert!(objection(of(0, 999), one_workload(64)).starts_with("64 processes of its workload"));
        assert_eq!(objection(of(1, 999), one_workload(64)), "");
        let one_user = |count| (0..count).map(|workload| of(workload, 7)).collect::<Vec<_>>();
        assert!(objection(of(999, 7), one_user(128)).starts_with("128 processes of its user"));
        assert_eq!(objection(of(999, 8), one_user(128)), "");
        let all = (0..192).map(|each| of(each, each)).collect();
        assert!(objection(of(999, 999), all).starts_with("192 processes of the machine"));
    }

    #[test]
    fn a_user_that_asks_without_end_keeps_no_other_from_asking() {
        let mut pace = Pace::of_questions();
        let first = Nanos::from_secs(10);
        assert_eq!((0..100).filter(|_| pace.allows(7, first)).count(), 16);
        assert!(pace.allows(8, first));
        assert_eq!((100..1_000).filter(|user| pace.allows(*user, first)).count(), 64 - 17);
        assert!(pace.allows(7, first + SECOND));
    }

    #[test]
    fn memory_that_a_process_keeps_counts_until_it_goes() {
        let counted = Counted { workload: WorkloadId(0), user: 7 };
        let (pages, memory, theirs) = quell_linux::pages::Pages::new(Nanos(1)).unwrap();
        let mut left = Left::default();
        left.take(counted, memory, Nanos(2));
        drop(pages);
        left.look(Nanos(2) + UNKNOWN + SECOND);
        assert_eq!(left.counted().collect::<Vec<_>>(), [counted]);
        drop(theirs);
        left.look(Nanos(3));
        assert!(left.is_empty());
    }
}
