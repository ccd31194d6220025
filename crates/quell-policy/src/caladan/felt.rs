//! Beyond the paper: a substitute for Algorithm 2's counters on machines without them.
//!
//! THRESH_SLOWDOWN (`thresh_slowdown`) stands for THRESH_BW: memory is saturated when its latency is this multiple of
//! its quiet latency. The slowdown is measured seldom, and each value is acted on once, so that a limit changes by one
//! core a value. If LLC misses are not counted either, the best-effort task with the most cores is throttled.

use quell_model::{Nanos, Quality, View, WorkloadId};
use serde::{Deserialize, Serialize};

use super::limits::worst;
use crate::cores::{Cores, Tasks};

/// Load of the memory bus.
pub(super) enum Bus {
    /// Not measured: the reason.
    Unmeasured(&'static str),
    /// There is no value yet, or none since the last one.
    Unknown,
    /// The threshold is reached, or not.
    Saturated(bool),
}

/// The slowdown against its threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Felt {
    /// THRESH_SLOWDOWN; None: off.
    thresh_slowdown: Option<f64>,
    /// Time of the slowdown sample that was acted on last.
    acted_on: Nanos,
}

impl Felt {
    pub fn new(thresh_slowdown: Option<f64>) -> Felt {
        Felt { thresh_slowdown, acted_on: Nanos::ZERO }
    }

    pub fn is_on(&self) -> bool {
        self.thresh_slowdown.is_some()
    }

    /// Stands for `GlobalMemBandwidth() < THRESH_BW`.
    pub fn bus(&mut self, view: &View) -> Bus {
        let slowdown = view.machine.memory_slowdown;
        match self.thresh_slowdown {
            Some(_) if slowdown.quality == Quality::Absent => Bus::Unmeasured("memory's slowdown is not measured"),
            Some(thresh) => match slowdown.usable() {
                Some(times) if slowdown.at > self.acted_on => {
                    self.acted_on = slowdown.at;
                    Bus::Saturated(times >= thresh)
                }
                _ => Bus::Unknown,
            },
            None => Bus::Unmeasured("memory bandwidth is not measured"),
        }
    }
}

/// Stands for the task with the highest misses.
pub(super) fn largest(tasks: &Tasks, cores: &Cores) -> Option<WorkloadId> {
    worst(tasks, cores, |task| f64::from(cores.held(task)))
}
