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
        report.services.sort_by_key(|service| std::cmp::Reverse(service.strain()));
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

#[cfg(test)]
mod tests {
    use quell_agent::wire::{Measurements, OfMachine, OfWorkload};
    use serde_json::{Value, json};

    use super::*;

    fn measured(value: f64, quality: Quality) -> Measured {
        Measured { value, age_ns: 0, window_ns: 10_000_000_000, quality }
    }

    fn workload(name: &str, class: &str, waited_by: &Value) -> Workload {
        let lately = json!({"window_ns": 10_000_000_000_u64, "waited_ns": 0, "known": "traced", "by": waited_by});
        serde_json::from_value(json!({
            "name": name, "class": class, "policies": [], "cpus_requested": 1.0, "knobs": [],
            "slo": {"quantile": 0.99, "bound_ns": 500_000},
            "waited": {"waited_ns": 0, "unsettled_ns": 0, "by": [], "lately": lately},
        }))
        .unwrap()
    }

    /// Two CPUs; the workloads w0, w1 … are the pods shop/p0, shop/p1 …
    fn status(workloads: Vec<Workload>) -> Status {
        let pod = |at: usize| {
            json!({
                "namespace": "shop", "name": format!("p{at}"), "uid": "u", "workload": format!("w{at}"), "qos": "Burstable",
                "class": "lc", "is_strict": false, "cpus_requested": 1.0, "containers": [], "remarks": [],
            })
        };
        let cpu = |cpu: u32| json!({"cpu": cpu, "core": cpu, "state": "idle"});
        let pods: Vec<Value> = (0..workloads.len()).map(pod).collect();
        let mut status: Status = serde_json::from_value(json!({
            "agent": {"version": "0", "pid": 1, "mode": "run", "host": "h", "limits": [], "cpu_seconds": 0.0, "resident_bytes": 0},
            "now_ns": 0, "turns": 0, "layers": [], "workloads": [], "cpus": [cpu(0), cpu(1)],
            "kubernetes": {"mode": "observe", "shared_cpus": "0-1", "strict_cpus": "", "set_again": 0, "refused": [], "pods": pods},
            "decisions": [], "decisions_lost": 0,
        }))
        .unwrap();
        status.workloads = workloads;
        status
    }

    fn cause(cause: &str, by: &str, waited_ns: u64) -> Value {
        json!({"cause": cause, "by": by, "waited_ns": waited_ns, "at_least_ns": 0, "at_most_ns": waited_ns})
    }

    #[test]
    fn forced_sharing_is_what_others_cost_and_each_has_its_part() {
        // Of 20 s of CPU time: 3 s for w1, 1 s for what is not managed; its own threads and limits are no one else's.
        let causes = json!([
            cause("workload", "w1", 3_000_000_000),
            cause("unmanaged", "x", 1_000_000_000),
            cause("own-threads", "", 9_000_000_000),
            cause("steal", "", 9_000_000_000),
        ]);
        let status = status(vec![workload("w0", "lc", &causes), workload("w1", "be", &json!([]))]);
        let report = Digest::of("n1").report(&status, 7);
        let sharing = report.reading(Measure::Sharing).unwrap();
        assert!((sharing.value - 0.2).abs() < 1e-9 && sharing.exact, "{sharing:?}");
        assert_eq!(report.heaviest.len(), 1);
        let heavy = &report.heaviest[0];
        assert_eq!((heavy.pod.as_str(), heavy.intensity), ("shop/p1", None));
        assert!((heavy.share.unwrap() - 0.75).abs() < 1e-9, "{heavy:?}");
        assert_eq!((report.node.as_str(), report.at_ms, report.window), ("n1", 7, Nanos::from_secs(10)));
        assert!(report.reading(Measure::Counters).is_none() && report.reading(Measure::Slowdown).is_none());
    }

    #[test]
    fn old_and_odd_numbers_count_as_absent() {
        let with = |value: f64, quality| {
            let mut one = workload("w0", "lc", &json!([]));
            one.measured = Measurements::<OfWorkload>::default()
                .with(Signal::BufferFullRate, Some(measured(value, quality)))
                .with(Signal::Latency, Some(measured(900_000.0, quality)));
            Digest::of("n1").report(&status(vec![one]), 0)
        };
        let good = with(1e6, Quality::Exact);
        assert_eq!(good.reading(Measure::Counters).unwrap().value, 1e6);
        assert_eq!(good.services[0].measured, Some(Nanos(900_000)));
        assert_eq!((good.services[0].bound, good.services[0].strain()), (Some(Nanos(500_000)), 1800));
        for (value, quality) in [(1e6, Quality::Stale), (f64::NAN, Quality::Exact), (-1.0, Quality::Exact)] {
            assert!(with(value, quality).reading(Measure::Counters).is_none(), "{value} {quality:?}");
        }
        assert_eq!(with(1e6, Quality::Stale).services[0].measured, None);
    }

    #[test]
    fn slowdown_is_above_one_and_what_is_no_pod_is_left_out() {
        let mut status = status(vec![workload("w0", "lc", &json!([])), workload("w1", "lc", &json!([]))]);
        status.measured =
            Measurements::<OfMachine>::default().with(Signal::MemorySlowdown, Some(measured(1.3, Quality::Estimated)));
        status.workloads.push(workload("not-a-pod", "lc", &json!([])));
        let report = Digest::of("n1").report(&status, 0);
        let slowdown = report.reading(Measure::Slowdown).unwrap();
        assert!((slowdown.value - 0.3).abs() < 1e-9 && !slowdown.exact, "{slowdown:?}");
        assert_eq!(report.services.len(), 2);
    }
}
