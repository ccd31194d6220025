//! Servers in an open loop.
//!
//! A thread that is idle takes the next arrival and sleeps until then: a request waits exactly while all threads are busy,
//! and none of them hands it on.

use quell_model::Nanos;
use quell_report::stats::Histogram;
use quell_sim::workload::{Dispatch, ServerSpec};
use quell_thread::clock;

use super::Body;
use crate::threads::sleep_until;

impl Body<'_> {
    pub fn serve(&self, server: &ServerSpec) -> Histogram {
        let mut latencies = Histogram::default();
        while let Some((arrived, work)) = self.next_request(server) {
            let arrived = self.course.begin + arrived;
            if arrived >= self.course.end {
                break;
            }
            self.count(arrived);
            sleep_until(arrived);
            self.pace.work(work);
            let now = clock::now();
            if now >= self.course.end {
                break;
            }
            if self.course.counts(arrived) {
                latencies.record((now - arrived).0);
            }
        }
        latencies
    }

    /// The next request for this thread: its arrival, since the start, and its work.
    fn next_request(&self, server: &ServerSpec) -> Option<(Nanos, Nanos)> {
        let mut shared = self.shared();
        if let Some(known) = shared.queues[self.thread as usize].pop_front() {
            return Some(known);
        }
        loop {
            let arrival = shared.draws.arrival()?;
            let work = shared.draws.work(&server.service);
            let thread = match server.dispatch {
                Dispatch::PerThread => shared.draws.thread(self.spec.threads),
                _ => self.thread,
            };
            if thread == self.thread {
                return Some((arrival, work));
            }
            shared.queues[thread as usize].push_back((arrival, work));
        }
    }
}
