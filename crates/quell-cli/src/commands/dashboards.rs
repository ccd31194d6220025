//! The dashboard and the alerts of the package name metrics that an agent has.

use std::collections::BTreeSet;

use quell_agent::api::wire::{
    Attribution, AttributionState, Class, Known, TrialCounts, Waited, WaitedFor, WaitedLately, Workload,
};
use quell_agent::metrics;

use super::sample;

/// The metrics of an agent of which everything is measured.
fn metrics_of_all() -> String {
    let mut status = sample::status(4);
    let by = vec![WaitedFor {
        cause: "unmanaged".into(),
        by: "cron.service".into(),
        waited_ns: 1,
        at_least_ns: 1,
        at_most_ns: 1,
    }];
    let lately = WaitedLately { window_ns: 1, waited_ns: 1, known: Known::Traced, by: by.clone() };
    let waited = Some(Waited { waited_ns: 1, unsettled_ns: 0, by, lately });
    status.workloads.push(Workload { waited, ..sample::workload("web", Class::Lc, 1.0, 0.5) });
    status.configured = vec![sample::configured("web")];
    status.layers.iter_mut().for_each(|layer| layer.trials = TrialCounts { helped: 1, ..TrialCounts::default() });
    status.measured = status.measured.with(quell_model::Signal::AttributionCost, sample::measured(1.0));
    let state = AttributionState::Limited;
    status.agent.attribution = Some(Attribution { state, why: None, cpu_seconds: 1.0, cost_bound: 0.005, bursts: 1 });
    metrics::text(&status)
}

#[test]
fn every_metric_that_they_name_is_there() {
    let metrics = metrics_of_all();
    let there: BTreeSet<&str> = metrics
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let name = regex::Regex::new(r"\bquell_[a-z_]+").unwrap();
    for file in ["grafana/quell.json", "prometheus/quell.rules.yml"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let named: BTreeSet<&str> = name.find_iter(&text).map(|found| found.as_str()).collect();
        assert!(named.len() > 4, "{file}: {named:?}");
        let missing: Vec<_> = named.difference(&there).collect();
        assert!(missing.is_empty(), "{file} names {missing:?}; there are {there:?}");
    }
}

/// What `promtool check metrics` asks for: a line of help for each, and no ending that is a histogram's.
#[test]
fn every_metric_has_a_help_line_in_prometheus_text() {
    let text = metrics::plain(&metrics_of_all());
    let helped: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()).collect();
    let samples = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(['{', ' ']).next());
    for name in samples {
        assert!(helped.contains(name), "{name} has no help");
        assert!(!["_count", "_sum", "_bucket"].iter().any(|ending| name.ends_with(ending)), "{name}");
    }
    assert!(helped.len() > 20, "{helped:?}");
}

#[test]
fn the_dashboard_is_json_with_a_query_in_each_panel() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana/quell.json");
    let board: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let panels = board["panels"].as_array().unwrap();
    assert!(panels.len() > 5);
    for panel in panels {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && targets.iter().all(|target| target["expr"].is_string()), "{panel}");
    }
}
