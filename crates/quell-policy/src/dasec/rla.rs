//! The rescheduling latency adjuster (RLA, §4.2 L197–199).
//!
//! Ready or running at the end of the period, slice not used up: 10 % less. Used up and idle: more. A thread that is at the
//! floor and still does not use its slice up may wait for others: the latencies of those that woke it are shortened, one
//! edge deep.

use super::config::{DasecConfig, ReadyAndUsed};
use super::tm::{Monitor, Task};

/// Latencies of the coming period. To be called before slices change: a slice was used up or not.
pub(super) fn adjust(monitor: &mut Monitor, config: &DasecConfig) {
    for at in 0..monitor.tasks.len() {
        let task = &monitor.tasks[at];
        if task.is_new() {
            continue;
        }
        let used_up = task.used_up(config);
        let factor = match (task.ready, used_up) {
            (true, false) if task.latency <= config.floor => {
                shorten_wakers(monitor, at, config);
                continue;
            }
            (true, false) => 1.0 - config.latency_step,
            (false, true) => 1.0 + config.latency_growth,
            (true, true) => match config.ready_and_used {
                ReadyAndUsed::Keep => 1.0,
                ReadyAndUsed::Shorten => 1.0 - config.latency_step,
                ReadyAndUsed::Lengthen => 1.0 + config.latency_growth,
            },
            (false, false) => continue,
        };
        scale(&mut monitor.tasks[at], factor, config);
    }
}

fn shorten_wakers(monitor: &mut Monitor, of: usize, config: &DasecConfig) {
    for at in monitor.tasks[of].edges() {
        let edge = monitor.edges[at];
        if edge.times > 0
            && let Some(waker) = monitor.find(edge.waker)
        {
            scale(&mut monitor.tasks[waker], 1.0 - config.latency_step, config);
        }
    }
}

fn scale(task: &mut Task, factor: f64, config: &DasecConfig) {
    task.latency = task.latency.scaled(factor).clamp(config.floor, config.ceiling);
}
