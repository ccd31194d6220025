//! What a node publishes of its contention: one annotation, [`LONGEST`] bytes at most.
//!
//! [`digest`] makes a report of what the node's agent says, [`pace`] decides when it is worth a write, [`text`] writes and reads it.
//! All of it is pure.

pub mod digest;
mod fits;
pub mod pace;
pub mod text;

use quell_model::Nanos;
use quell_model::cluster::Measure;

/// The annotation of a Node object.
pub const ANNOTATION: &str = "quell.dev/contention";
/// Longest text of a report, bytes.
pub const LONGEST: usize = 1023;
/// Most heavy workloads, and most services, in a report.
pub const MOST: usize = 16;

/// A node's contention over a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The node's name.
    pub node: String,
    /// End of the window, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its length.
    pub window: Nanos,
    /// Contention by each measure that the node has.
    pub by: Vec<Reading>,
    /// The workloads that contribute most, the heaviest first.
    pub heaviest: Vec<Heavy>,
    /// Latency-critical workloads.
    pub services: Vec<Service>,
}

/// Contention by one measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The measure.
    pub measure: Measure,
    /// In its unit.
    pub value: f64,
    /// Was it measured, and not derived?
    pub exact: bool,
}

/// A workload's part of its node's contention.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heavy {
    /// `NAMESPACE/NAME`.
    pub pod: String,
    /// Memory-buffer-full events a second; None: no counters.
    pub intensity: Option<f64>,
    /// Its part, 0–1, of the time that the node's workloads waited for others; None: not known.
    pub share: Option<f64>,
}

/// A latency-critical workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    /// `NAMESPACE/NAME`.
    pub pod: String,
    /// Latency at the SLO's quantile, as it reports it.
    pub measured: Option<Nanos>,
    /// The same by Equation 5.1, where counters are.
    pub predicted: Option<Nanos>,
    /// The SLO's bound.
    pub bound: Option<Nanos>,
}

impl Service {
    /// Its latency as thousandths of its bound, by which those that need attention come first.
    #[must_use]
    pub fn strain(&self) -> u64 {
        match (self.measured.or(self.predicted), self.bound) {
            (Some(latency), Some(bound)) => latency.0.saturating_mul(1000) / bound.0.max(1),
            _ => 0,
        }
    }
}

impl Report {
    /// Its reading by a measure.
    #[must_use]
    pub fn reading(&self, measure: Measure) -> Option<&Reading> {
        self.by.iter().find(|reading| reading.measure == measure)
    }

    /// What is known of a heavy workload.
    #[must_use]
    pub fn heavy(&self, pod: &str) -> Option<&Heavy> {
        self.heaviest.iter().find(|heavy| heavy.pod == pod)
    }

    /// What is known of a service.
    #[must_use]
    pub fn service(&self, pod: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.pod == pod)
    }
}
