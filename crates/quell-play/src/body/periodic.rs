//! Periodic and sporadic tasks, one a thread.

use quell_model::Nanos;
use quell_report::stats::Histogram;
use quell_sim::workload::PeriodicSpec;
use quell_thread::clock;

use super::Body;
use crate::threads::sleep_until;

impl Body<'_> {
    pub fn repeat(&self, task: &PeriodicSpec) -> Histogram {
        let mut latencies = Histogram::default();
        let stagger = Nanos(task.stagger.0 * u64::from(self.thread));
        let mut release = self.course.begin + task.offset + stagger;
        while release < self.course.end {
            self.count(release);
            sleep_until(release);
            let (work, later) = {
                let draws = &mut self.shared().draws;
                (draws.work(&task.work), draws.later(task.later.as_ref()))
            };
            self.pace.work(work);
            let now = clock::now();
            if now < self.course.end && self.course.counts(release) {
                latencies.record((now - release).0);
            }
            release = release + task.period + later;
        }
        latencies
    }
}
