//! A view of the cluster: what the API server says, with the nodes' reports.

use std::collections::BTreeMap;

use quell_model::cluster::{ClusterView, HostId, HostState, Measure};
use quell_model::{CpuCount, Nanos, Quality, Sample, Slo, WorkloadId};

use super::seats::Seats;
use super::world::Objects;
use crate::contention::Report;

/// The quantile of a report's latencies: the agent's, unless the workload's SLO says another.
const QUANTILE: f64 = 0.99;

/// Fills the view at `now`; by the clock on the wall it is `wall_ms` since 1970. Returns, by node, why its report counts for nothing.
pub fn show(
    objects: &Objects,
    seats: &Seats,
    now: Nanos,
    wall_ms: u64,
    view: &mut ClusterView,
) -> BTreeMap<String, String> {
    view.now = now;
    view.hosts.resize(seats.hosts.len());
    view.workloads.resize(seats.seats.len());
    let mut bad = BTreeMap::new();
    let mut reports: Vec<Option<(Report, Clock)>> = Vec::with_capacity(seats.hosts.len());
    for (at, name) in seats.hosts.iter().enumerate() {
        let node = name.as_ref().and_then(|name| Some((name, objects.nodes.get(name)?)));
        let Some((name, node)) = node else {
            clear_host(view, at);
            reports.push(None);
            continue;
        };
        let report = node.report.as_deref().and_then(|text| match Report::parse(text, name, wall_ms) {
            Ok(report) => Some(report),
            Err(error) => {
                bad.insert(name.clone(), error.to_string());
                None
            }
        });
        let hosts = &mut view.hosts;
        (hosts.state[at], hosts.cores[at], hosts.cpus[at]) = (node.state, node.cores, node.cpus);
        (hosts.memory[at], hosts.mark[at]) = (node.memory, node.mark);
        (hosts.claimed_cpus[at], hosts.claimed_memory[at]) = (CpuCount::ZERO, 0);
        let clock = report.as_ref().map(|report| Clock::of(report, now, wall_ms));
        show_report(view, at, report.as_ref().zip(clock));
        reports.push(report.zip(clock));
    }
    for at in 0..seats.seats.len() {
        show_workload(objects, seats, &reports, at, view);
    }
    bad
}

/// Times of a report on the view's clock.
#[derive(Clone, Copy)]
struct Clock {
    at: Nanos,
    window: Nanos,
}

impl Clock {
    fn of(report: &Report, now: Nanos, wall_ms: u64) -> Clock {
        let age = Nanos(wall_ms.saturating_sub(report.at_ms) * 1_000_000);
        Clock { at: Nanos(now.0.saturating_sub(age.0)), window: report.window }
    }

    fn sample<T: Copy>(self, value: T, exact: bool) -> Sample<T> {
        let quality = if exact { Quality::Exact } else { Quality::Estimated };
        Sample { value, at: self.at, window: self.window, quality }
    }
}

fn clear_host(view: &mut ClusterView, at: usize) {
    let hosts = &mut view.hosts;
    hosts.state[at] = HostState::Gone;
    hosts.mark[at] = Default::default();
    (hosts.claimed_cpus[at], hosts.claimed_memory[at]) = (CpuCount::ZERO, 0);
    show_report(view, at, None);
}

fn show_report(view: &mut ClusterView, at: usize, report: Option<(&Report, Clock)>) {
    let sample = |measure| {
        let (report, clock) = report?;
        let reading = report.reading(measure)?;
        Some(clock.sample(reading.value, reading.exact))
    };
    view.hosts.contention[at] = sample(Measure::Counters).unwrap_or_default();
    view.hosts.substitutes[at] = Measure::WITHOUT_COUNTERS.map(|measure| sample(measure).unwrap_or_default());
    if let Some((_, clock)) = report {
        view.hosts.reported[at] = clock.at;
    }
}

fn show_workload(
    objects: &Objects,
    seats: &Seats,
    reports: &[Option<(Report, Clock)>],
    at: usize,
    view: &mut ClusterView,
) {
    let seat = seats.seat(WorkloadId(at as u32));
    let pod = seat.and_then(|seat| objects.pods.get(seat.pod.as_ref()?));
    let works = &mut view.workloads;
    works.present[at] = seat.is_some();
    works.moving_to[at] = seat.and_then(|seat| seat.moving.as_ref()).map(|moving| moving.to);
    // Kubernetes places what waits.
    works.pending_since[at] = None;
    (works.intensity[at], works.share[at]) = Default::default();
    (works.latency[at], works.predicted[at]) = Default::default();
    (works.slo[at], works.threshold[at]) = (None, None);
    works.host[at] = None;
    let Some((seat, pod)) = seat.zip(pod) else { return };
    (works.class[at], works.movable[at]) = (pod.class, pod.movable);
    (works.cpus[at], works.memory[at]) = (pod.cpus, pod.memory);
    let Some(host) = pod.node.as_deref().and_then(|node| seats.host(node)) else { return };
    let claimed = &mut view.hosts.claimed_cpus[host.index()];
    claimed.0 = claimed.0.saturating_add(pod.cpus.0);
    view.hosts.claimed_memory[host.index()] = view.hosts.claimed_memory[host.index()].saturating_add(pod.memory);
    works.host[at] = Some(host);
    let Some((report, clock)) = reports.get(host.index()).and_then(Option::as_ref) else { return };
    if let Some(heavy) = report.heavy(&seat.path) {
        let sample = |value: Option<f64>| value.map(|value| clock.sample(value, true)).unwrap_or_default();
        (works.intensity[at], works.share[at]) = (sample(heavy.intensity), sample(heavy.share));
    }
    if let Some(service) = report.service(&seat.path).filter(|_| pod.class.is_lc()) {
        let sample = |value: Option<Nanos>, exact| value.map(|value| clock.sample(value, exact)).unwrap_or_default();
        (works.latency[at], works.predicted[at]) = (sample(service.measured, true), sample(service.predicted, false));
        (works.slo[at], works.threshold[at]) =
            (service.bound.map(|bound| Slo { quantile: QUANTILE, bound }), service.bound);
    }
}

/// A node's name for messages.
#[must_use]
pub fn name(seats: &Seats, host: HostId) -> &str {
    seats.hosts.get(host.index()).and_then(Option::as_deref).unwrap_or("a node that is gone")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::seen::NodeSeen;
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn node(name: &str, spec: &serde_json::Value, report_of: &str, at: u64) -> NodeSeen {
        let report = format!(
            r#"{{"v":1,"node":"{report_of}","at":{at},"window":1000,"by":{{"sharing":[0.4,true]}},"heavy":[],"lc":[]}}"#
        );
        let node = json!({
            "metadata": {"name": name, "annotations": {"quell.dev/contention": report}}, "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "8", "memory": "16Gi"}},
        });
        NodeSeen::of(&serde_json::from_value(node).unwrap())
    }

    /// What is shown of nodes at this time of the wall, an hour after the controller began.
    fn shown(nodes: &[(&str, NodeSeen)], wall_ms: u64) -> (ClusterView, BTreeMap<String, String>) {
        let mut objects = Objects::default();
        objects.nodes.extend(nodes.iter().map(|(name, node)| ((*name).to_owned(), node.clone())));
        let (mut seats, mut view) = (Seats::default(), ClusterView::default());
        seats.update(&objects, Nanos::from_secs(3600), &mut Vec::new());
        let bad = show(&objects, &seats, Nanos::from_secs(3600), wall_ms, &mut view);
        (view, bad)
    }

    fn contention(view: &ClusterView, host: u32) -> Option<f64> {
        view.contention(HostId(host), Measure::Sharing)
    }

    #[test]
    fn a_report_counts_at_its_time_for_its_node_and_not_after_the_clock_stepped_far() {
        let one = [("n1", node("n1", &json!({}), "n1", NOW))];
        let (view, bad) = shown(&one, NOW + 2000);
        assert_eq!((contention(&view, 0), bad.len()), (Some(0.4), 0));
        assert_eq!(view.hosts.reported[0], Nanos::from_secs(3598));
        // The wall's clock steps back: the report is from the future. Forward: it is old.
        for (wall, word) in [(NOW - 60_000, "future"), (NOW + 3_600_000, "s old")] {
            let (view, bad) = shown(&one, wall);
            assert!(contention(&view, 0).is_none() && bad["n1"].contains(word), "{bad:?}");
        }
        let (view, bad) = shown(&[("n1", node("n1", &json!({}), "n2", NOW))], NOW);
        assert!(contention(&view, 0).is_none() && bad["n1"].contains("another node"), "{bad:?}");
    }

    #[test]
    fn a_cordoned_node_takes_none_and_one_that_is_gone_says_none() {
        let cordoned = node("n1", &json!({"unschedulable": true}), "n1", NOW);
        let (view, _) = shown(&[("n1", cordoned)], NOW);
        assert_eq!((view.hosts.state[0], contention(&view, 0)), (HostState::Draining, Some(0.4)));

        let mut objects = Objects::default();
        objects.nodes.insert("n1".into(), node("n1", &json!({}), "n1", NOW));
        let (mut seats, mut view) = (Seats::default(), ClusterView::default());
        for _ in 0..2 {
            seats.update(&objects, Nanos(1), &mut Vec::new());
            show(&objects, &seats, Nanos(1), NOW, &mut view);
            objects.nodes.clear();
        }
        assert_eq!((view.hosts.state[0], contention(&view, 0)), (HostState::Gone, None));
    }

    #[test]
    fn what_a_node_writes_reaches_no_terminal_as_it_is() {
        let (_, bad) = shown(&[("n1", node("n1", &json!({}), "\\u001b[2J", NOW))], NOW);
        assert!(bad["n1"].contains("another node") && !bad["n1"].contains('\u{1b}'), "{bad:?}");
        let mut flood = node("n1", &json!({}), "n1", NOW);
        flood.report = Some("{\"".to_owned() + &"x".repeat(900) + "\":1}");
        let (_, bad) = shown(&[("n1", flood)], NOW);
        assert!(bad["n1"].len() < 300, "{bad:?}");
    }
}
