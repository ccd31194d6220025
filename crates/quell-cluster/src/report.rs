//! What is known of a workload.

use quell_model::cluster::{ClusterView, Measure};
use quell_model::{Nanos, WorkloadId};
use quell_report::screen::Screen;
use quell_report::table::table;
use serde::{Deserialize, Serialize};

use crate::policy::Judged;

/// A workload at the end of a run: its place, its numbers, and the moves made for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkloadReport {
    /// Its number.
    pub workload: u32,
    /// Its kind.
    pub kind: String,
    /// Its host.
    pub host: Option<u32>,
    /// What the host's contention is measured by; None: not known.
    #[serde(default)]
    pub measure: Option<Measure>,
    /// Contention of that host, by default memory-buffer-full events a second.
    pub contention: Option<f64>,
    /// Its own part.
    pub intensity: Option<f64>,
    /// Its reported latency.
    pub latency: Option<Nanos>,
    /// Its predicted waiting time, and the threshold.
    pub predicted: Option<Nanos>,
    /// `SLO_threshold`.
    pub threshold: Option<Nanos>,
    /// Its SLO's bound.
    pub slo: Option<Nanos>,
    /// The judged moves that were made for it, oldest first.
    pub moves: Vec<Judged>,
}

/// What a view and judged moves show of a workload.
#[must_use]
pub fn of_workload(view: &ClusterView, judged: &[Judged], id: WorkloadId, kind: &str) -> WorkloadReport {
    let (workloads, at) = (&view.workloads, id.index());
    let host = workloads.host[at];
    let measure = host.and_then(|host| view.measure(host));
    WorkloadReport {
        workload: id.0,
        kind: kind.to_owned(),
        host: host.map(|host| host.0),
        measure,
        contention: host.zip(measure).and_then(|(host, measure)| view.contention(host, measure)),
        intensity: view.intensity(id, measure.unwrap_or_default()),
        latency: workloads.latency[at].usable(),
        predicted: workloads.predicted[at].usable(),
        threshold: workloads.threshold[at],
        slo: workloads.slo[at].map(|slo| slo.bound),
        moves: judged.iter().filter(|judged| judged.victim == id || judged.moved == id).cloned().collect(),
    }
}

impl WorkloadReport {
    /// In words and a table.
    #[must_use]
    pub fn text(&self, screen: &Screen) -> String {
        let or = |value: Option<String>| value.unwrap_or_else(|| "not known".into());
        let time = |value: Option<Nanos>| or(value.map(|value| value.to_string()));
        let measure = self.measure.unwrap_or_default();
        let number = |value: f64| match measure {
            Measure::Counters => quell_report::human::rate(value),
            _ => format!("{value:.4}"),
        };
        let mut text = format!("workload {} ({})\n", self.workload, self.kind);
        text += &format!("  host               {}\n", or(self.host.map(|host| host.to_string())));
        text += &format!("  its contention     {} {}\n", or(self.contention.map(number)), measure.words());
        text += &format!("  own intensity      {} {}\n", or(self.intensity.map(number)), measure.words());
        if self.slo.is_some() {
            text += &format!("  latency            {} (SLO {})\n", time(self.latency), time(self.slo));
            text += &format!("  predicted wait     {} (threshold {})\n", time(self.predicted), time(self.threshold));
        }
        if self.moves.is_empty() {
            return text + "  no move was judged";
        }
        let row = |judged: &Judged| {
            vec![
                judged.at.to_string(),
                judged.moved.0.to_string(),
                format!("{} → {}", judged.from.0, judged.to.0),
                format!("{} → {}", judged.before, judged.after),
                if judged.helped { "helped" } else { "did not help" }.to_owned(),
            ]
        };
        text + "\n" + &table(["at", "moved", "hosts", "latency", "verdict"], self.moves.iter().map(row)).fit(screen)
    }
}
