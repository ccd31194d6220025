//! Weights of a workload's threads sum up to what they began with, latencies are within bounds, no thread is bound outside
//! the pool.

use super::Dasec;
use super::tm::START_WEIGHT;
use crate::invariant::{Calm, Invariants};

impl Dasec {
    /// What holds after each step.
    pub(super) fn check_bounds(&self) {
        let tasks = &self.monitor.tasks;
        for task in tasks {
            assert!((self.config.floor..=self.config.ceiling).contains(&task.latency), "{task:?}");
            assert!((1.0..=10_000.0).contains(&task.weight), "{task:?}");
            assert!(task.slice <= self.config.period, "{task:?}");
            assert!(task.bound.is_none_or(|cpu| self.pool.contains(cpu)), "{task:?}");
        }
        for task in tasks {
            let of = || tasks.iter().filter(|other| other.workload == task.workload);
            let (weight, count) = (of().map(|other| other.weight).sum::<f64>(), of().count() as f64);
            // Beyond 100 threads a weight may be cut at the largest.
            assert!(
                count > 100.0 || (weight - START_WEIGHT * count).abs() < 1e-3 * weight,
                "{weight} of {count} threads"
            );
        }
    }
}

impl Invariants for Dasec {
    const VARIANTS: &'static [&'static str] = &[
        r#"{"tsa": false, "bound": "for-ever"}"#,
        r#"{"bound": "until-next"}"#,
        r#"{"rla": false, "weight_step": 1.0}"#,
        r#"{"rcr": false, "latency_step": 0.9, "ready_and_used": "shorten"}"#,
    ];

    fn check(&self, calm: &Calm<'_>) {
        self.check_bounds();
        for (id, spec) in calm.view.owned() {
            assert!(calm.of(id).cpus.is_subset(&calm.cpus), "{} is confined", spec.name);
        }
    }
}
