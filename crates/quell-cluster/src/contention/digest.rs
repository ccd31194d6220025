//! A report of what the node's agent says.

use std::collections::BTreeMap;

use quell_agent::wire::{Class, Known, Measured, Quality, Status, Workload};
use quell_model::cluster::Measure;
use quell_model::{Nanos, Signal};

use super::fits::Fits;
use super::{Heavy, Reading, Report, Service};
use crate::predict::Window;

/// Causes of a wait that are other programs on the node.
const OTHERS: [&str; 2] = ["workload", "unmanaged"];

/// Makes reports of a node, and keeps what it learns of its services.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    node: String,
    fits: Fits,
}

impl Digest {
    /// Of the node with this name.
    #[must_use]
    pub fn of(node: &str) -> Digest {
        Digest { node: node.to_owned(), fits: Fits::default() }
    }

    /// The report of what the agent says at this time, in milliseconds since 1970. Numbers that are old count as absent.
    pub fn report(&mut self, status: &Status, at_ms: u64) -> Report {
        let pods: BTreeMap<&str, String> = status
            .kubernetes
            .iter()
            .flat_map(|kubernetes| &kubernetes.pods)
            .map(|pod| (pod.workload.as_str(), format!("{}/{}", pod.namespace, pod.name)))
            .collect();
        self.fits.keep(|pod| pods.values().any(|known| known == pod));
        let sharing = Sharing::of(status);
        let mut report = Report { node: self.node.clone(), at_ms, ..Report::default() };
        report.by = readings(status, &sharing);
        report.window = window(status);
        for workload in &status.workloads {
            let Some(pod) = pods.get(workload.name.as_str()) else { continue };
            let intensity = fresh(workload, Signal::BufferFullRate).map(|it| it.value);
            let share = sharing.share(&workload.name);
            if intensity.is_some_and(|it| it > 0.0) || share.is_some_and(|it| it > 0.0) {
                report.heaviest.push(Heavy { pod: pod.clone(), intensity, share });
            }
            if workload.class == Class::Lc {
                report.services.push(self.service(workload, pod));
            }
        }
        let weight = |heavy: &Heavy| (heavy.intensity.unwrap_or(0.0), heavy.share.unwrap_or(0.0));
        report.heaviest.sort_by(|a, b| {
            let (a, b) = (weight(a), weight(b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        // Those nearest to their bound, or beyond it, first.
        let strain = |service: &Service| match (service.measured.or(service.predicted), service.bound) {
            (Some(latency), Some(bound)) => latency.0 as f64 / bound.0.max(1) as f64,
            _ => 0.0,
        };
        report.services.sort_by(|a, b| strain(b).total_cmp(&strain(a)));
        report
    }

    fn service(&mut self, workload: &Workload, pod: &str) -> Service {
        let time = |measured: Measured| Nanos(measured.value.max(0.0) as u64);
        let measured = fresh(workload, Signal::Latency).map(time);
        let bound = workload.slo.as_ref().map(|slo| Nanos(slo.bound_ns));
        let mut predicted = None;
        if let (Some(mbfr), Some(irq), Some(cpu)) = (
            fresh(workload, Signal::BufferFullRate),
            fresh(workload, Signal::SoftInterrupts),
            workload.cpus_used.filter(is_fresh),
        ) {
            let wait = measured.map_or(0.0, |latency| latency.0 as f64 / 1e9);
            let window = Window { mbfr: mbfr.value, irq: irq.value, cpu: cpu.value, wait };
            predicted = self.fits.predict(pod, &window);
            if measured.is_some() {
                self.fits.learn(pod, window);
            }
        }
        Service { pod: pod.to_owned(), measured, predicted, bound }
    }
}

fn is_fresh(measured: &Measured) -> bool {
    measured.quality != Quality::Stale && measured.value.is_finite() && measured.value >= 0.0
}

fn fresh(workload: &Workload, signal: Signal) -> Option<Measured> {
    workload.measured.get(signal).filter(is_fresh)
}

/// The node's contention by each measure that it has.
fn readings(status: &Status, sharing: &Sharing) -> Vec<Reading> {
    let reading = |measure, value: f64, exact| Reading { measure, value, exact };
    let is_exact = |measured: &Measured| measured.quality == Quality::Exact;
    let counted: Vec<Measured> =
        status.workloads.iter().filter_map(|workload| fresh(workload, Signal::BufferFullRate)).collect();
    let counters = (!counted.is_empty()).then(|| {
        let sum = counted.iter().map(|measured| measured.value).sum();
        reading(Measure::Counters, sum, counted.iter().all(is_exact))
    });
    let slowdown = status.measured.get(Signal::MemorySlowdown).filter(is_fresh);
    let slowdown = slowdown.map(|it| reading(Measure::Slowdown, (it.value - 1.0).max(0.0), is_exact(&it)));
    let delays = status.workloads.iter().filter(|it| it.class == Class::Lc);
    let delays = delays.filter_map(|workload| fresh(workload, Signal::QueueingDelay));
    let delay = delays.max_by(|a, b| a.value.total_cmp(&b.value));
    let delay = delay.map(|it| reading(Measure::Delay, it.value / 1e9, is_exact(&it)));
    let sharing = sharing.known.then(|| reading(Measure::Sharing, sharing.total, sharing.traced));
    [counters, slowdown, sharing, delay].into_iter().flatten().collect()
}

/// The longest window of what is measured.
fn window(status: &Status) -> Nanos {
    let lately = status.workloads.iter().filter_map(|it| Some(it.waited.as_ref()?.lately.window_ns));
    let counted = status.workloads.iter().filter_map(|it| Some(fresh(it, Signal::BufferFullRate)?.window_ns));
    Nanos(lately.chain(counted).max().unwrap_or(0).min(3_600_000_000_000))
}

/// Forced sharing: what workloads waited for others, as parts of the node's CPU time.
#[derive(Default)]
struct Sharing {
    total: f64,
    by: BTreeMap<String, f64>,
    known: bool,
    traced: bool,
}

impl Sharing {
    fn of(status: &Status) -> Sharing {
        let cpus = status.cpus.len().max(1) as f64;
        let mut sharing = Sharing { traced: true, ..Sharing::default() };
        for lately in status.workloads.iter().filter_map(|workload| Some(&workload.waited.as_ref()?.lately)) {
            if lately.known == Known::Unknown || lately.window_ns == 0 {
                continue;
            }
            sharing.known = true;
            sharing.traced &= lately.known == Known::Traced;
            for cause in lately.by.iter().filter(|cause| OTHERS.contains(&cause.cause.as_str())) {
                let part = cause.waited_ns as f64 / lately.window_ns as f64 / cpus;
                sharing.total += part;
                if cause.cause == "workload" {
                    *sharing.by.entry(cause.by.clone()).or_default() += part;
                }
            }
        }
        sharing
    }

    /// A workload's part of it; None: nothing is known.
    fn share(&self, workload: &str) -> Option<f64> {
        let part = self.by.get(workload).copied().unwrap_or(0.0);
        (self.known && self.total > 0.0).then(|| (part / self.total).clamp(0.0, 1.0))
    }
}
