//! What workloads waited for.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::wire::{Attribution, AttributionState, Workload};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCause {
    workload: String,
    cause: String,
    by: String,
}

/// A bounded number of series a workload; each only grows.
pub(super) fn register(registry: &mut Registry, attribution: Option<&Attribution>, workloads: &[Workload]) {
    let family = Family::<OfCause, Counter<f64, AtomicU64>>::default();
    for workload in workloads {
        for line in workload.waited.iter().flat_map(|waited| &waited.by) {
            let label = OfCause { workload: workload.name.clone(), cause: line.cause.clone(), by: line.by.clone() };
            family.get_or_create(&label).inc_by(line.waited_ns as f64 / 1e9);
        }
    }
    let help = "Time that its threads were runnable and did not run, by cause and by whom";
    registry.register_with_unit("workload_waited", help, Unit::Seconds, family);
    let Some(attribution) = attribution else { return };
    let limited = Gauge::<i64>::default();
    limited.set((attribution.state == AttributionState::Limited).into());
    registry.register(
        "attribution_limited",
        "Does attribution trace less than it should, to keep its bound? 1: yes",
        limited,
    );
    let unavailable = Gauge::<i64>::default();
    unavailable.set((attribution.state == AttributionState::Unavailable).into());
    registry.register(
        "attribution_unavailable",
        "Can it not trace, so that all causes are unknown? 1: yes",
        unavailable,
    );
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;
    use crate::wire::{Class, Configured, Known, State, Waited, WaitedFor, WaitedLately};

    #[test]
    fn a_strangers_name_cannot_end_its_label() {
        let configured = Configured {
            name: "web".into(),
            class: Class::Lc,
            cpus_requested: 1.0,
            state: State::Attached,
            since_ns: 0,
            threads: None,
            selectors: vec![],
            leased_by: None,
            latency: None,
            why: None,
            departed: vec![],
            overridden: None,
            remarks: vec![],
        };
        let by = "x\"} 1\nquell_off 1\\";
        let line = WaitedFor {
            cause: "unmanaged".into(),
            by: by.into(),
            waited_ns: 1_500_000_000,
            at_least_ns: 0,
            at_most_ns: 0,
        };
        let lately = WaitedLately { window_ns: 0, waited_ns: 0, known: Known::Unknown, by: vec![] };
        let waited = Some(Waited { waited_ns: 0, unsettled_ns: 0, by: vec![line], lately });
        let workloads = [Workload { waited, ..configured.unmeasured() }];
        let mut registry = Registry::with_prefix("quell");
        register(&mut registry, None, &workloads);
        let mut out = String::new();
        text::encode(&mut out, &registry).unwrap();
        let expected = "quell_workload_waited_seconds_total{workload=\"web\",cause=\"unmanaged\",\
                        by=\"x\\\"} 1\\nquell_off 1\\\\\"} 1.5";
        assert!(out.lines().any(|line| line == expected), "{out}");
    }
}
