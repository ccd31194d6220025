//! The scheduler wakes the loader, and shows it who waits.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use crate::ScxError;
use crate::layout::{CALM, MAX_SLOTS, NEWS, YIELDS};
use crate::program::{Grant, broken};
use crate::sets::{SLOTS, SlotSet};

const _: () = assert!(MAX_SLOTS < SLOTS);

impl Grant {
    /// Has the scheduler wake the loader at a queue that forms, and, where a workload has no place in the line, at a CPU
    /// that is yielded; says whether there is such a workload. When it is `calm`, not at queues of best-effort work in line.
    pub(crate) fn listen(&self, calm: bool) -> bool {
        let yields = !self.outside_the_line.is_empty();
        let wakes = [(true, NEWS), (yields, YIELDS), (calm, CALM)];
        let wakes = wakes.into_iter().filter(|(is, _)| *is).fold(0, |all, (_, one)| all | one);
        self.shared().listening.store(wakes, SeqCst);
        yields
    }

    /// It wakes the loader no more.
    pub(crate) fn listen_no_more(&self) {
        self.shared().listening.store(0, SeqCst);
    }

    /// The slots of which a thread waits, by the sets in which the scheduler finds next holders (`bpf/hold/waiting.h`): of a thousand a few. One in
    /// which a thread began to wait is in before the loop is woken for it; some wait no more.
    pub(crate) fn waiting(&self) -> SlotSet {
        let mut all = SlotSet::default();
        self.shared().waiting.iter().for_each(|set| all.unite(&set.word));
        all
    }

    /// Does a thread of an LC workload wait for a CPU that only the loop can give it?
    pub(crate) fn waits_for_the_loop(&self) -> bool {
        let waiting = self.waiting().iter().filter(|id| self.outside_the_line.contains(*id));
        waiting.filter_map(|id| self.workload(id).ok()).any(|state| {
            let waits = state.queued.load(Relaxed) != state.taken.load(Relaxed);
            waits && state.lc.load(Relaxed) == 1 && state.held.load(Relaxed) < state.limit.load(Relaxed)
        })
    }

    /// Waits until the scheduler reported something, at most for this long.
    pub(crate) fn wait_for_news(&self, at_most: Duration) -> Result<(), ScxError> {
        // SAFETY: the ring keeps its descriptor open while it lives.
        let ring = unsafe { BorrowedFd::borrow_raw(self.wakeups.epoll_fd().as_raw_fd()) };
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(ring.as_fd(), rustix::event::PollFlags::IN)];
        let at_most =
            rustix::time::Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        match rustix::event::poll(&mut fds, Some(&at_most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(ScxError::Wait(errno.into())),
        }
        self.wakeups.consume().map_err(broken("reading the ring of wake-ups"))
    }
}
