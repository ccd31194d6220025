//! A thread that does stages of requests.

use quell_model::Nanos;
use quell_report::stats::Histogram;
use quell_thread::clock;

use super::Body;
use crate::requests::{Act, Requests};

impl Body<'_> {
    pub fn do_stages(&self, requests: &Requests) -> Histogram {
        let (mut latencies, end) = (Histogram::default(), self.course.end);
        let (line, pool) = (requests.line(), requests.pool(self.thread));
        while let Some(task) = line.next(pool, end) {
            let mut step = 0;
            while let Some((act, time)) = line.act(task, step) {
                match act {
                    Act::Work(_) => self.works(time),
                    Act::Locked(_, lock) => line.locked(lock, || self.works(time)),
                    Act::Signal(flags) => line.signal(task, flags),
                    Act::Wait(flags) => line.wait(task, flags, end),
                    Act::Meet(barrier) => line.meet(task, barrier, end),
                }
                step += 1;
            }
            let now = clock::now();
            if now >= end {
                break;
            }
            if let Some(arrived) = line.end_stage(task, now).filter(|arrived| self.course.counts(*arrived)) {
                latencies.record((now - arrived).0);
            }
        }
        latencies
    }

    fn works(&self, time: Nanos) {
        let _ = self.pace.work_until(time, self.course.end);
    }
}
