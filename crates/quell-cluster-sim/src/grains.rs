//! One scenario in both grains: how far to trust the coarse one.

use quell_model::WorkloadId;
use quell_model::cluster::ClusterView;
use quell_report::table::{Table, table};
use serde::Serialize;

use crate::ClusterError;
use crate::scenario::{Grain, Scenario};
use crate::sim::{Cluster, WINDOW};

/// How near the grains are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The mean slowdown of all workloads: time taken over the time that it would have taken alone.
    pub slowdown: Pair,
    /// By kind.
    pub kinds: Vec<(String, Pair)>,
    /// The median, over services and reports, of the 99th percentile of latency, µs.
    pub p99_us: Option<Pair>,
    /// Rounds of reports, and those in which hosts have the same order by contention.
    pub rounds: u32,
    /// Those.
    pub same_order: u32,
    /// Pairs of hosts over all rounds, and those that have the same order.
    pub pairs: u32,
    /// Those.
    pub same_pairs: u32,
}

/// A number in both grains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// In the coarse one.
    pub coarse: f64,
    /// In the exact one.
    pub exact: f64,
}

impl Pair {
    /// The coarse one's error, as a part.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.coarse / self.exact - 1.0
    }

    fn of(pair: [Vec<f64>; 2]) -> Option<Pair> {
        let [coarse, exact] = pair.map(|values| mean(&values));
        Some(Pair { coarse: coarse?, exact: exact? })
    }
}

/// What one grain shows.
struct Shown {
    /// By workload at the end: its kind, and its slowdown.
    slowdowns: Vec<(String, f64)>,
    /// By round: the hosts' contention.
    rounds: Vec<Vec<f64>>,
    /// Services' latencies at reports, µs.
    latencies: Vec<f64>,
}

/// Runs a scenario in both grains under a policy.
///
/// # Errors
/// If there is no such policy, or a host cannot be had in the exact grain.
pub fn compare(scenario: &Scenario, policy: &str, seed: u64) -> Result<Compared, ClusterError> {
    let shown = |grain| show(&Scenario { grain, ..scenario.clone() }, policy, seed);
    let (coarse, exact) = rayon::join(|| shown(Grain::Coarse), || shown(Grain::Exact));
    let both = [coarse?, exact?];
    let slowdowns = |is_of: &dyn Fn(&str) -> bool| {
        let own = |shown: &Shown| shown.slowdowns.iter().filter(|(kind, _)| is_of(kind)).map(|(_, of)| *of).collect();
        Pair::of(both.each_ref().map(own))
    };
    let mut names: Vec<&String> = scenario.kind.iter().map(|kind| &kind.name).collect();
    names.sort();
    let kinds = names.into_iter().filter_map(|name| Some((name.clone(), slowdowns(&|kind| kind == name)?))).collect();
    let medians = both.each_ref().map(|shown| median(&shown.latencies));
    let p99_us = medians[0].zip(medians[1]).map(|(coarse, exact)| Pair { coarse, exact });
    let [coarse, exact] = both.each_ref().map(|shown| &shown.rounds);
    let rounds = coarse.iter().zip(exact).map(|(one, other)| same(one, other));
    let mut compared = Compared {
        slowdown: slowdowns(&|_| true).unwrap_or(Pair { coarse: 1.0, exact: 1.0 }),
        kinds,
        p99_us,
        rounds: 0,
        same_order: 0,
        pairs: 0,
        same_pairs: 0,
    };
    for (same, all) in rounds {
        compared.rounds += 1;
        compared.same_order += u32::from(same == all);
        compared.pairs += all;
        compared.same_pairs += same;
    }
    Ok(compared)
}

fn show(scenario: &Scenario, policy: &str, seed: u64) -> Result<Shown, ClusterError> {
    let mut shown = Shown { slowdowns: Vec::new(), rounds: Vec::new(), latencies: Vec::new() };
    let mut seen = None;
    Cluster::simulate_looking(scenario, policy, seed, WINDOW, |cluster, stack| {
        let view: &ClusterView = stack.view();
        let reported = view.hosts.reported.iter().max().copied();
        // The first report is of what is, not of what was.
        if reported > seen && seen.is_some() {
            shown.rounds.push(view.hosts.contention.iter().map(|sample| sample.value).collect());
            let usable = view.workloads.latency.iter().filter_map(|sample| sample.usable());
            shown.latencies.extend(usable.map(|latency| latency.0 as f64 / 1e3));
        }
        seen = seen.max(reported);
        shown.slowdowns = cluster.slowdowns().collect();
    })?;
    Ok(shown)
}

/// Pairs of hosts that have the same order in both, and all pairs. Hosts within a hundredth of each other have any order.
fn same(one: &[f64], other: &[f64]) -> (u32, u32) {
    let is_near = |a: f64, b: f64| (a - b).abs() <= 0.01 * a.abs().max(b.abs());
    let (mut same, mut all) = (0, 0);
    for at in 0..one.len().min(other.len()) {
        for before in 0..at {
            let order = |of: &[f64]| (!is_near(of[before], of[at])).then(|| of[before] < of[at]);
            let (one, other) = (order(one), order(other));
            all += 1;
            same += u32::from(one.is_none() || other.is_none() || one == other);
        }
    }
    (same, all)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

impl Compared {
    /// For people.
    #[must_use]
    pub fn table(&self) -> Table {
        let row = |what: String, pair: &Pair, digits: usize| {
            let number = |value: f64| format!("{value:.digits$}");
            [what, number(pair.coarse), number(pair.exact), format!("{:+.1} %", 100.0 * pair.error())]
        };
        let mut rows = vec![row("slowdown, all".into(), &self.slowdown, 3)];
        rows.extend(self.kinds.iter().map(|(kind, pair)| row(format!("slowdown, {kind}"), pair, 3)));
        rows.extend(self.p99_us.iter().map(|pair| row("median p99, µs".into(), pair, 0)));
        table(["mean", "coarse", "exact", "error"], rows)
    }
}

impl Cluster {
    /// Each workload's kind and its slowdown so far; those that have not run yet are left out.
    pub fn slowdowns(&self) -> impl Iterator<Item = (String, f64)> {
        let ids = (0..self.workloads()).map(|at| WorkloadId(at as u32));
        ids.filter_map(|id| Some((self.kind(id).to_owned(), self.slowdown(id)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_nearly_alike_have_any_order() {
        assert_eq!(same(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), (3, 3));
        assert_eq!(same(&[1.0, 2.0, 3.0], &[2.0, 1.0, 3.0]), (2, 3));
        assert_eq!(same(&[1.0, 1.005, 3.0], &[2.0, 1.0, 3.0]), (3, 3));
    }
}
