//! A server whose clients wait for their answers; see `quell_sim::workload::ClosedSpec`.
//!
//! As with an open loop, a thread that is idle sleeps until the next client asks. It gives the answer itself, so that each
//! thread always has a client, if there are as many clients as threads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quell_model::Nanos;
use quell_report::stats::Histogram;
use quell_sim::workload::{ClosedSpec, Dispatch, Draws};
use quell_thread::clock;

use super::Body;
use crate::threads::sleep_until;

/// When each client asks next.
pub struct Clients {
    /// One queue for all threads, or one a thread: when, and who.
    due: Vec<BinaryHeap<Reverse<(Nanos, u32)>>>,
    /// With a timetable: between two requests of a client, ns, and by client its next one.
    pace: Option<(f64, Vec<f64>)>,
}

impl Clients {
    pub fn new(closed: &ClosedSpec, draws: &mut Draws, threads: u32, begin: Nanos) -> Clients {
        let queues = if closed.dispatch == Dispatch::PerThread { threads } else { 1 };
        let timetable = |rate: f64| {
            let first = |client| begin.0 as f64 + f64::from(client) * 1e9 / rate;
            (f64::from(closed.clients) * 1e9 / rate, (0..closed.clients).map(first).collect())
        };
        let due = vec![BinaryHeap::new(); queues as usize];
        let mut clients = Clients { due, pace: closed.pace.map(timetable) };
        (0..closed.clients).for_each(|client| clients.think(client, begin, closed, draws));
        clients
    }

    /// A client has its answer and begins to think.
    fn think(&mut self, client: u32, now: Nanos, closed: &ClosedSpec, draws: &mut Draws) {
        let mut at = now + draws.later(Some(&closed.think));
        if let Some((gap, next)) = &mut self.pace {
            let next = &mut next[client as usize];
            at = at.max(Nanos(*next as u64));
            *next += *gap;
        }
        let queue = client as usize % self.due.len();
        self.due[queue].push(Reverse((at, client)));
    }

    fn next(&mut self, thread: u32) -> Option<(Nanos, u32)> {
        let queue = thread as usize % self.due.len();
        self.due[queue].pop().map(|Reverse(next)| next)
    }
}

impl Body<'_> {
    pub fn answer(&self, closed: &ClosedSpec) -> Histogram {
        let (mut latencies, end) = (Histogram::default(), self.course.end);
        loop {
            let next = {
                let shared = &mut *self.shared();
                let next = shared.clients.as_mut().and_then(|clients| clients.next(self.thread));
                next.map(|next| (next, shared.draws.work(&closed.service)))
            };
            let Some(((asked, client), work)) = next.filter(|((asked, _), _)| *asked < end) else { break };
            self.count(asked);
            sleep_until(asked);
            let left = self.pace.work_until(work, end);
            let now = clock::now();
            if left > Nanos::ZERO || now >= end {
                break;
            }
            if self.course.counts(asked) {
                latencies.record((now - asked).0);
            }
            let shared = &mut *self.shared();
            if let Some(clients) = &mut shared.clients {
                clients.think(client, now, closed, &mut shared.draws);
            }
        }
        latencies
    }
}

#[cfg(test)]
mod tests {
    use quell_model::Class;
    use quell_sim::WorkloadSpec;
    use quell_sim::workload::Service;

    use super::*;

    fn clients(pace: Option<f64>, dispatch: Dispatch) -> (Clients, ClosedSpec, Draws) {
        let (think, service) = (Service::Constant(Nanos(10)), Service::Constant(Nanos(1)));
        let closed = ClosedSpec { clients: 4, think, service, pace, dispatch };
        let spec = WorkloadSpec { closed: Some(closed.clone()), ..WorkloadSpec::new("web", Class::LatencyCritical) };
        let mut draws = Draws::new(&spec, 0, 1);
        (Clients::new(&closed, &mut draws, 2, Nanos(1_000)), closed, draws)
    }

    #[test]
    fn connections_are_dealt_out_to_threads_and_clients_think() {
        let (mut all, closed, mut draws) = clients(None, Dispatch::PerThread);
        assert_eq!([all.next(1), all.next(1), all.next(1)], [Some((Nanos(1_010), 1)), Some((Nanos(1_010), 3)), None]);
        all.think(3, Nanos(2_000), &closed, &mut draws);
        assert_eq!([all.next(1), all.next(0)], [Some((Nanos(2_010), 3)), Some((Nanos(1_010), 0))]);
    }

    #[test]
    fn a_timetable_holds_clients_back_and_lets_late_ones_catch_up() {
        // All together 10 million a second: a client asks every 400 ns, one after the other.
        let (mut all, closed, mut draws) = clients(Some(1e7), Dispatch::Pool);
        let first: Vec<u64> = (0..4).map_while(|_| all.next(0)).map(|(at, _)| at.0).collect();
        assert_eq!(first, [1_010, 1_100, 1_200, 1_300]);
        all.think(0, Nanos(1_100), &closed, &mut draws);
        assert_eq!(all.next(0), Some((Nanos(1_400), 0)), "by its timetable");
        all.think(0, Nanos(5_000), &closed, &mut draws);
        assert_eq!(all.next(0), Some((Nanos(5_010), 0)), "late: as soon as it can");
    }
}
