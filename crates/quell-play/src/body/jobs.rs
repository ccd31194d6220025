//! A job server: one thread that does the jobs of several sources, in an order; see `quell_sim::workload::JobsSpec`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quell_model::Nanos;
use quell_report::stats::Histogram;
use quell_sim::workload::{JobsSpec, Order};
use quell_thread::clock;

use super::Body;
use crate::threads::sleep_until;

/// A job; the least is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    /// By the order.
    key: Nanos,
    /// How many came before.
    number: u64,
    released: Nanos,
    left: Nanos,
}

impl Body<'_> {
    pub fn do_jobs(&self, jobs: &JobsSpec) -> Histogram {
        let mut latencies = Histogram::default();
        let sources = jobs.source.iter().zip(0..);
        let mut next: BinaryHeap<Reverse<(Nanos, usize)>> =
            sources.map(|(source, place)| Reverse((self.course.begin + source.offset, place))).collect();
        let mut waiting = BinaryHeap::new();
        let mut number = 0;
        while let Some(&Reverse((at, _))) = next.peek() {
            if waiting.is_empty() {
                sleep_until(at.min(self.course.end));
            }
            let now = clock::now();
            if now >= self.course.end {
                break;
            }
            while let Some(&Reverse((at, place))) = next.peek()
                && at <= now
            {
                next.pop();
                self.count(at);
                number += 1;
                let source = &jobs.source[place];
                let draws = &mut self.shared().draws;
                let later = draws.later(source.later.as_ref());
                next.push(Reverse((at + source.period + later, place)));
                let key = match jobs.order {
                    Order::Fifo => Nanos::ZERO,
                    Order::Rm => source.period,
                    Order::Edf => at + source.period,
                };
                waiting.push(Reverse(Job { key, number, released: at, left: draws.work(&source.work) }));
            }
            let Some(Reverse(job)) = waiting.pop() else { continue };
            // The next release may be of a job that comes first.
            let until = next.peek().map_or(self.course.end, |Reverse((at, _))| (*at).min(self.course.end));
            let left = self.pace.work_until(job.left, until);
            if left > Nanos::ZERO {
                waiting.push(Reverse(Job { left, ..job }));
                continue;
            }
            let now = clock::now();
            if now < self.course.end && self.course.counts(job.released) {
                latencies.record((now - job.released).0);
            }
        }
        latencies
    }
}
