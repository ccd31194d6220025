//! What changes about a workload while it runs: its demand, its threads, and its end.

use super::body::Body;
use super::load::Load;
use crate::kernel::{Kernel, TaskId};

impl Load {
    /// This many requests arrive now, of an open loop's or of the first client. Only servers have requests.
    pub fn send(&mut self, kernel: &mut Kernel, requests: usize) {
        for _ in 0..requests {
            match &mut self.body {
                Body::Server(server) => server.arrive(&mut self.common, kernel, 0),
                Body::Stealing(server) => server.arrive(&mut self.common, kernel, 0),
                _ => {}
            }
        }
    }

    /// Each thread wants this part (0–1) of a CPU from now on: requests of an open loop come as often, periodic jobs take as
    /// long; threads of batch work without phases are busy if that is anything, and sleep else. Others stay as they are.
    pub fn set_demand(&mut self, kernel: &mut Kernel, demand: f64) {
        let own = &mut self.common;
        let rate = |mean: f64| demand * own.tasks.len() as f64 * 1e9 / mean.max(1.0);
        match &mut self.body {
            Body::Server(server) => server.source.set_rate(rate(server.mean_service()), own.timer, kernel),
            Body::Stealing(server) => server.source.set_rate(rate(server.mean_service()), own.timer, kernel),
            Body::Periodic(periodic) => periodic.set_demand(demand),
            Body::Batch(batch) => batch.set_busy(own, kernel, demand > 0.0),
            Body::Parallel(_) | Body::Jobs(_) | Body::Forks(_) | Body::Stages | Body::Ended => {}
        }
    }

    /// May it have more threads, or fewer?
    pub fn can_change_threads(&self) -> bool {
        matches!(self.body, Body::Server(_) | Body::Periodic(_) | Body::Batch(_))
    }

    /// Another thread, which exists and sleeps, is the last one now.
    pub fn add_thread(&mut self, kernel: &mut Kernel, task: TaskId) {
        let own = &mut self.common;
        own.tasks.push(task);
        kernel.set_phase(task, own.phases.own);
        match &mut self.body {
            Body::Server(server) => server.add_thread(own, kernel),
            Body::Periodic(periodic) => periodic.add_thread(own, kernel),
            Body::Batch(batch) => batch.add_thread(own, kernel, task),
            _ => {}
        }
    }

    /// The last thread ends, unless it is the only one.
    pub fn end_thread(&mut self, kernel: &mut Kernel) -> Option<TaskId> {
        let own = &mut self.common;
        let task = if own.tasks.len() > 1 { own.tasks.pop()? } else { return None };
        match &mut self.body {
            Body::Server(server) => server.end_thread(own, kernel, task),
            Body::Periodic(periodic) => periodic.end_thread(),
            _ => {}
        }
        own.ended.push(task);
        kernel.end(task);
        Some(task)
    }

    /// It is over: its threads end, and what they had to do is lost.
    pub fn end(&mut self, kernel: &mut Kernel) {
        self.body = Body::Ended;
        kernel.timers.cancel(self.common.timer);
        self.common.tasks.iter().for_each(|&task| kernel.end(task));
    }
}
