//! Figures 5.6 to 5.8: four hosts, in the coarse simulated cluster.

use anyhow::{Context, Result};
use quell_cluster_sim::scenario::{Local, Scenario};
use quell_cluster_sim::sim::{Cluster, Summary};
use quell_evidence::Measure;
use quell_model::cluster::HostId;
use quell_sim::experiment::assumed::assumed;

use super::super::trial::Trial;
use super::measure;

/// The scenario of Figure 5.7.
const DYNAMIC: &str = include_str!("../../../../../../papers/sdc/dynamic.toml");
/// Usage of the hosts' CPUs over their capacity, GHz (Table 5.3).
const USAGE: [f64; 4] = [31.82, 33.30, 32.90, 33.07];
const CAPACITY: f64 = 38.38;

/// The host on which the global scheduler places memcached, from 0.
pub fn chosen(trial: Trial) -> Result<usize> {
    let mut scenario = Scenario::shipped("testbed")?;
    assume(&mut scenario);
    let outcome = Cluster::simulate(&scenario, "sdc-published", trial.seed, |_, _| {})?;
    let last = outcome.view.workloads.host.last().copied().flatten();
    Ok(last.context("memcached has no host")?.index())
}

/// Full-buffer events are counted as assumed.
fn assume(scenario: &mut Scenario) {
    for host in &mut scenario.host {
        host.full_power = Some(assumed("sdc.full-power"));
    }
}

/// Neighbours change while memcached runs on this host at the beginning: what came of it, and memcached's moves.
fn dynamic(policy: &str, local: Local, host: u32, trial: Trial) -> Result<(Summary, u32)> {
    let mut scenario = Scenario::parse(DYNAMIC)?;
    scenario.local = local;
    assume(&mut scenario);
    for kind in scenario.kind.iter_mut().filter(|kind| kind.name == "memcached") {
        kind.rate = assumed("sdc.dynamic-rate") * 1000.0;
    }
    for group in scenario.workloads.iter_mut().filter(|group| group.kind == "memcached") {
        group.hosts = vec![host];
    }
    let (mut at, mut moves) = (Some(HostId(host)), 0);
    let outcome = Cluster::simulate(&scenario, policy, trial.seed, |_, stack| {
        let now = stack.view().workloads.host.last().copied().flatten();
        moves += u32::from(now.is_some() && now != at);
        at = now.or(at);
    })?;
    Ok((outcome.summary, moves))
}

/// Figures 5.7 and 5.8.
pub fn measures(trial: Trial) -> Result<Vec<Measure>> {
    // "We used the initial placement of global placement experiments": host 1 by OpenStack and by DRS, host 4 by ours.
    let default = dynamic("none", Local::Even, 0, trial)?;
    let ours = dynamic("sdc-published", Local::Sdc, 3, trial)?;
    let (drs, _) = dynamic("drs", Local::Even, 0, trial)?;
    // Figure 5.8b: "LSVM only migration and core mapping with our local algorithm".
    let (alone, alone_moves) = dynamic("sdc-alone", Local::Sdc, 3, trial)?;
    let on_shared = |policy| -> Result<f64> { Ok(100.0 * dynamic(policy, Local::Even, 3, trial)?.0.violated) };
    let shared = format!(
        "with all VMs on all cores: {:.1} and {:.1} % of the time",
        on_shared("sdc-alone")?,
        on_shared("sdc-published")?
    );
    let longer = alone.violated - ours.0.violated;
    let ((default, stays), (ours, moves)) = (default, ours);
    let times = ours.violated / default.violated.max(1e-9);
    let note = format!("{:.1} and {:.1} % of the time", 100.0 * default.violated, 100.0 * ours.violated);
    Ok(vec![
        measure("fig5.7.default", default.violated, "")?,
        measure("fig5.7.stays", f64::from(stays), "")?,
        measure("fig5.7.moves", f64::from(moves), format!("{} moves of all VMs", ours.count.moves))?,
        measure("fig5.7.met", times, note)?,
        measure("fig5.8.drs-violates", drs.violated, "")?,
        measure("fig5.8.drs-stays", f64::from(drs.count.moves), "")?,
        measure("fig5.8.alone-moves", f64::from(alone_moves), "")?,
        measure("fig5.8.both", longer, shared)?,
        measure("fig5.8.deviation", deviation(&USAGE.map(|usage| usage / CAPACITY)), "of Table 5.3's CPU usage")?,
    ])
}

fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_is_read_and_table_5_3_gives_the_deviation_of_its_cpus() {
        Scenario::parse(DYNAMIC).unwrap();
        let found = deviation(&USAGE.map(|usage| usage / CAPACITY));
        assert!((0.014..0.016).contains(&found), "{found}");
    }
}
