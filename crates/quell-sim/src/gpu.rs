//! A GPU on the machine's memory: one queue, one piece of work at a time.
//!
//! What was submitted runs to its end, whatever becomes of the thread that submitted it.

use std::collections::VecDeque;

use crate::kernel::{FULL_SPEED, Timer};
use crate::timers::{TimerId, Timers};

/// A piece of work for the GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GpuWork {
    /// The thread that waits for it, as its owner numbers threads.
    pub worker: usize,
    /// Its time alone at the GPU's highest frequency, ns.
    pub time: u64,
    /// Bytes that it moves between memory and the GPU in a nanosecond of that time.
    pub bytes_per_ns: f64,
}

/// The GPU.
#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    timer: TimerId,
    /// The first one runs.
    queue: VecDeque<GpuWork>,
    /// Work left of the first one, in nanoseconds times [`FULL_SPEED`], at the time `progressed`.
    left: u64,
    progressed: u64,
    speed: u64,
    /// Does something else run, or nothing, since contention looked last?
    changed: bool,
    /// Time in which it ran something.
    busy: u64,
}

impl Gpu {
    /// A GPU at its highest frequency, with nothing to do.
    pub fn new(timers: &mut Timers<Timer>) -> Gpu {
        let (queue, timer) = (VecDeque::new(), timers.add(Timer::Gpu));
        Gpu { timer, queue, left: 0, progressed: 0, speed: FULL_SPEED, changed: false, busy: 0 }
    }

    /// Puts a piece of work at the end of the queue.
    pub fn submit(&mut self, work: GpuWork, now: u64, timers: &mut Timers<Timer>) {
        self.queue.push_back(work);
        if self.queue.len() == 1 {
            self.begin(now, timers);
        }
    }

    /// The piece of work that runs.
    pub fn running(&self) -> Option<&GpuWork> {
        self.queue.front()
    }

    /// Did something else begin since the last call?
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Its speed from now on; [`FULL_SPEED`] is that of the work alone at the highest frequency.
    pub fn set_speed(&mut self, speed: u64, now: u64, timers: &mut Timers<Timer>) {
        let speed = speed.clamp(1, FULL_SPEED);
        if speed == self.speed {
            return;
        }
        self.progress(now);
        self.speed = speed;
        self.set_timer(now, timers);
    }

    /// The timer rang: returns the work that is done, and begins the next one.
    pub fn finish(&mut self, now: u64, timers: &mut Timers<Timer>) -> Option<GpuWork> {
        self.progress(now);
        if self.left > 0 {
            self.set_timer(now, timers);
            return None;
        }
        let done = self.queue.pop_front();
        self.begin(now, timers);
        done
    }

    /// Time in which it ran something, ns.
    pub fn busy(&self, now: u64) -> u64 {
        self.busy + if self.queue.is_empty() { 0 } else { now - self.progressed }
    }

    fn begin(&mut self, now: u64, timers: &mut Timers<Timer>) {
        self.changed = true;
        self.progressed = now;
        self.left = self.running().map_or(0, |work| work.time.max(1).saturating_mul(FULL_SPEED));
        self.set_timer(now, timers);
    }

    fn progress(&mut self, now: u64) {
        if !self.queue.is_empty() {
            self.left = self.left.saturating_sub((now - self.progressed).saturating_mul(self.speed));
            self.busy += now - self.progressed;
        }
        self.progressed = now;
    }

    fn set_timer(&mut self, now: u64, timers: &mut Timers<Timer>) {
        match self.running() {
            Some(_) => timers.set(self.timer, now + self.left.div_ceil(self.speed)),
            None => timers.cancel(self.timer),
        }
    }
}

/// A stage that runs on a GPU needs one.
///
/// # Errors
/// A sentence, if there is none.
pub(crate) fn check(stage: Option<String>, has_gpu: bool) -> Result<(), String> {
    match stage.filter(|_| !has_gpu) {
        Some(stage) => Err(format!("{stage} runs on a GPU: take a machine that has one, such as edgeiso")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(worker: usize, time: u64) -> GpuWork {
        GpuWork { worker, time, bytes_per_ns: 0.0 }
    }

    #[test]
    fn one_piece_of_work_runs_at_a_time_in_the_order_of_submission() {
        let mut timers = Timers::new();
        let mut gpu = Gpu::new(&mut timers);
        gpu.submit(work(7, 100), 0, &mut timers);
        gpu.submit(work(8, 50), 10, &mut timers);
        let mut done = Vec::new();
        while let Some((now, _)) = timers.pop(1_000) {
            done.extend(gpu.finish(now, &mut timers).map(|work| (now, work.worker)));
        }
        assert_eq!(done, [(100, 7), (150, 8)]);
        assert_eq!((gpu.running(), gpu.busy(1_000)), (None, 150));
    }

    #[test]
    fn at_half_of_the_speed_the_rest_takes_twice_as_long() {
        let mut timers = Timers::new();
        let mut gpu = Gpu::new(&mut timers);
        gpu.submit(work(0, 100), 0, &mut timers);
        gpu.set_speed(FULL_SPEED / 2, 40, &mut timers);
        assert_eq!(timers.pop(1_000).map(|(now, _)| now), Some(160));
        assert_eq!(gpu.finish(160, &mut timers).map(|work| work.worker), Some(0));
    }
}
