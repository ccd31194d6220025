//! Threads that start short-lived threads; see `quell_sim::workload::ForksSpec`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use quell_model::Nanos;
use quell_report::stats::Histogram;
use quell_sim::workload::ForksSpec;
use quell_thread::clock;

use super::Body;
use crate::threads::sleep_until;

/// Short-lived threads need little.
const STACK: usize = 64 << 10;

impl Body<'_> {
    /// Starts threads until the course ends, and waits for those that are left.
    pub fn start_threads(&self, forks: &ForksSpec) -> Histogram {
        let mut latencies = Histogram::default();
        let mut alive: VecDeque<JoinHandle<Option<u64>>> = VecDeque::new();
        let mut join = |thread: JoinHandle<Option<u64>>| {
            if let Ok(Some(latency)) = thread.join() {
                latencies.record(latency);
            }
        };
        let mut at = self.course.begin;
        while at < self.course.end {
            if forks.every.is_some() {
                sleep_until(at);
            }
            if alive.len() == forks.most as usize {
                alive.pop_front().into_iter().for_each(&mut join);
            }
            let now = clock::now();
            if now >= self.course.end {
                break;
            }
            let due = if forks.every.is_some() { at } else { now };
            self.count(due);
            match self.start_thread(due, self.shared().draws.work(&forks.work)) {
                Ok(thread) => alive.push_back(thread),
                Err(why) => eprintln!("play: a short-lived thread was not started: {why}"),
            }
            at = forks.every.map_or(now, |every| at + every);
        }
        alive.into_iter().for_each(join);
        latencies
    }

    /// A thread that works for this long and ends; its latency, ns, if that counts.
    fn start_thread(&self, due: Nanos, work: Nanos) -> std::io::Result<JoinHandle<Option<u64>>> {
        let (pace, course, ended, called) = (self.pace, self.course, Arc::clone(self.ended), clock::now());
        Builder::new().stack_size(STACK).spawn(move || {
            pace.work(work);
            let now = clock::now();
            ended.add(now - called, clock::cpu_time());
            (now < course.end && course.counts(due)).then(|| (now - due).0)
        })
    }
}
