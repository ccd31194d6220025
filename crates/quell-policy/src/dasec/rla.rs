//! The rescheduling latency adjuster (RLA, §4.2 L197–199).
//!
//! Ready or running at the end of the period, slice not used up: 10 % less. Used up and idle: more; idle with a slice left:
//! more as well, up to where it began (ours). A thread that is at the floor and still does not use its slice up may wait for
//! others: the latencies of those that woke it are shortened, one edge deep.

use quell_model::Nanos;

use super::config::{DasecConfig, Unsaid};
use super::tm::{Monitor, Task};

/// Latencies of the coming period. To be called before slices change: a slice was used up or not.
pub(super) fn adjust(monitor: &mut Monitor, config: &DasecConfig) {
    for at in 0..monitor.tasks.len() {
        let task = &monitor.tasks[at];
        if task.is_new() {
            continue;
        }
        let (change, most) = match (task.ready, task.used_up(config)) {
            (true, false) if task.latency <= config.floor => {
                shorten_wakers(monitor, at, config);
                continue;
            }
            (true, false) => (Unsaid::Shorten, config.ceiling),
            (false, true) => (Unsaid::Lengthen, config.ceiling),
            (true, true) => (config.ready_and_used, config.ceiling),
            // Back to where it began, and no further.
            (false, false) => (config.idle_and_unused, config.start_latency.max(task.latency)),
        };
        let factor = match change {
            Unsaid::Keep => 1.0,
            Unsaid::Shorten => 1.0 - config.latency_step,
            Unsaid::Lengthen => 1.0 + config.latency_growth,
        };
        scale(&mut monitor.tasks[at], factor, most, config);
    }
}

fn shorten_wakers(monitor: &mut Monitor, of: usize, config: &DasecConfig) {
    for at in monitor.tasks[of].edges() {
        let edge = monitor.edges[at];
        if edge.times > 0
            && let Some(waker) = monitor.find(edge.waker)
        {
            scale(&mut monitor.tasks[waker], 1.0 - config.latency_step, config.ceiling, config);
        }
    }
}

fn scale(task: &mut Task, factor: f64, most: Nanos, config: &DasecConfig) {
    task.latency = task.latency.scaled(factor).clamp(config.floor, most);
}
