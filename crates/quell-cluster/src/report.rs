//! What is known of a workload.

use std::collections::BTreeMap;

use quell_model::cluster::{ClusterView, HostId, HostState, Measure, Movable};
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
    /// The judged moves that were made for it, or of it, oldest first.
    pub moves: Vec<Judged>,
    /// What contends most with it there, and may move or not.
    #[serde(default)]
    pub blamed: Option<Blamed>,
    /// The quietest other host by the same measure, and its contention.
    #[serde(default)]
    pub quietest: Option<(u32, f64)>,
    /// Names of the workloads and hosts that are named by number.
    #[serde(default)]
    pub names: (BTreeMap<u32, String>, BTreeMap<u32, String>),
}

/// The heaviest other workload of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Blamed {
    /// Its number.
    pub workload: u32,
    /// Its part of the contention.
    pub intensity: f64,
    /// May it move?
    pub movable: bool,
}

/// Names of workloads and hosts by number; a workload's is empty, and a host has none, where there is none.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Of workloads.
    pub workloads: &'a [String],
    /// Of hosts.
    pub hosts: &'a [Option<String>],
}

/// What a view and judged moves show of a workload.
#[must_use]
pub fn of_workload(view: &ClusterView, judged: &[Judged], id: WorkloadId, names: &Names<'_>) -> WorkloadReport {
    let (workloads, at) = (&view.workloads, id.index());
    let host = workloads.host[at];
    let measure = host.and_then(|host| view.measure(host));
    let moves: Vec<Judged> = judged.iter().filter(|it| it.victim == id || it.moved == id).cloned().collect();
    let blamed = host.zip(measure).and_then(|(host, measure)| blamed(view, id, host, measure));
    let quietest = host.zip(measure).and_then(|(host, measure)| quietest(view, host, measure));
    let mut named = (BTreeMap::new(), BTreeMap::new());
    let others = moves.iter().flat_map(|it| [it.moved.0, it.victim.0]);
    for number in others.chain(blamed.as_ref().map(|it| it.workload)) {
        if let Some(name) = names.workloads.get(number as usize).filter(|name| !name.is_empty()) {
            named.0.insert(number, name.clone());
        }
    }
    let hosts = moves.iter().flat_map(|it| [it.from.0, it.to.0]);
    for number in hosts.chain(host.map(|host| host.0)).chain(quietest.map(|it| it.0)) {
        if let Some(Some(name)) = names.hosts.get(number as usize) {
            named.1.insert(number, name.clone());
        }
    }
    WorkloadReport {
        workload: id.0,
        kind: names.workloads.get(at).cloned().unwrap_or_default(),
        host: host.map(|host| host.0),
        measure,
        contention: host.zip(measure).and_then(|(host, measure)| view.contention(host, measure)),
        intensity: view.intensity(id, measure.unwrap_or_default()),
        latency: workloads.latency[at].usable(),
        predicted: workloads.predicted[at].usable(),
        threshold: workloads.threshold[at],
        slo: workloads.slo[at].map(|slo| slo.bound),
        moves,
        blamed,
        quietest,
        names: named,
    }
}

fn blamed(view: &ClusterView, id: WorkloadId, host: HostId, by: Measure) -> Option<Blamed> {
    let works = &view.workloads;
    let is_there = |it: &WorkloadId| *it != id && works.present[it.index()] && works.host[it.index()] == Some(host);
    let others = works.ids().filter(is_there).filter_map(|it| Some((it, view.intensity(it, by)?)));
    let (workload, intensity) = others.filter(|(_, part)| *part > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Blamed { workload: workload.0, intensity, movable: works.movable[workload.index()] != Movable::Never })
}

fn quietest(view: &ClusterView, but: HostId, by: Measure) -> Option<(u32, f64)> {
    let fit = |host: &HostId| *host != but && view.hosts.state[host.index()] == HostState::Ready;
    let others = view.hosts.ids().filter(fit).filter_map(|host| Some((host.0, view.contention(host, by)?)));
    others.min_by(|a, b| a.1.total_cmp(&b.1))
}

impl WorkloadReport {
    /// In words and a table.
    #[must_use]
    pub fn text(&self, screen: &Screen) -> String {
        let or = |value: Option<String>| value.unwrap_or_else(|| "not known".into());
        let time = |value: Option<Nanos>| or(value.map(|value| value.to_string()));
        let measure = self.measure.unwrap_or_default();
        let number_of = |value: f64| match measure {
            Measure::Counters => quell_report::human::rate(value),
            _ => format!("{value:.4}"),
        };
        let mut text = format!("workload {} ({})\n", self.workload, self.kind);
        let host = |number: u32| self.names.1.get(&number).cloned().unwrap_or_else(|| number.to_string());
        let workload = |number: u32| self.names.0.get(&number).cloned().unwrap_or_else(|| number.to_string());
        text += &format!("  host               {}\n", or(self.host.map(host)));
        text += &format!("  its contention     {} {}\n", or(self.contention.map(number_of)), measure.words());
        text += &format!("  own intensity      {} {}\n", or(self.intensity.map(number_of)), measure.words());
        if let Some(Blamed { workload: number, intensity, movable }) = &self.blamed {
            let may = if *movable { "" } else { ", which does not move" };
            text += &format!("  contends most      {} ({}){may}\n", workload(*number), number_of(*intensity));
        }
        if let Some((number, contention)) = self.quietest {
            text += &format!("  quietest other     {} ({})\n", host(number), number_of(contention));
        }
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
                workload(judged.moved.0),
                format!("{} → {}", host(judged.from.0), host(judged.to.0)),
                format!("{} → {}", judged.before, judged.after),
                judged.verdict().words().to_owned(),
            ]
        };
        text + "\n" + &table(["at", "moved", "hosts", "latency", "verdict"], self.moves.iter().map(row)).fit(screen)
    }
}
