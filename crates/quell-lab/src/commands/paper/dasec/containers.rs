//! Masstree in 16 and 32 containers (§6.3, §6.5): dasec beside parties, BVT and Linux, each at its best.

use anyhow::{Context, Result};
use quell_evidence::{Measure, assumptions};
use quell_model::{Nanos, Warp};
use quell_sim::experiment::assumed::varied;
use quell_sim::experiment::dasec::{self, MASSTREE, Scene, Scheduler, Seen, THREADS};

use super::super::trial::Trial;
use super::{linux, mean, measure, policy, span, with};

/// The values that an opponent's assumption is tried at.
fn points(id: &str) -> Result<Vec<f64>> {
    let of = assumptions("dasec").iter().find(|of| of.id == id).context("an assumption of this paper")?;
    Ok(varied(&format!("dasec.{id}")).map_or(of.points.clone(), |value| vec![value]))
}

/// Of several runs the one with the lowest mean latency, and its point.
fn best(points: &[f64], run: impl Fn(f64) -> Result<Seen>) -> Result<(f64, Seen)> {
    let runs = points.iter().map(|&point| Ok((point, run(point)?))).collect::<Result<Vec<_>>>()?;
    runs.into_iter().min_by(|(_, one), (_, other)| one.mean().total_cmp(&other.mean())).context("there are points")
}

fn parties(instances: u32, calm: f64, trial: Trial) -> Result<(f64, Seen)> {
    best(&points("parties-target")?, |times| {
        let target = Nanos((times * calm * 1e6) as u64);
        let scene = Scene::of(MASSTREE, instances, THREADS).with_target(target);
        Ok(dasec::run(&scene, Scheduler::Cfs, &mut policy("parties", "")?, span(trial))?)
    })
}

fn bvt(instances: u32, trial: Trial) -> Result<(f64, Seen)> {
    let scene = Scene::of(MASSTREE, instances, THREADS);
    best(&points("bvt-warp")?, |millis| {
        let (by, limit, rest) = (Nanos((millis * 1e6) as u64), Nanos::from_millis(2), Nanos::from_millis(20));
        let warp = (millis > 0.0).then_some(Warp { by, limit, rest });
        Ok(dasec::run(&scene, Scheduler::Bvt(warp), &mut policy("none", "")?, span(trial))?)
    })
}

/// Figures 11, 12 and 14.
pub fn measures(trial: Trial) -> Result<Vec<Measure>> {
    let calm = linux(&Scene::of(MASSTREE, 2, THREADS), trial)?.p99();
    let counts: &[u32] = if trial.quick { &[16] } else { &[16, 32] };
    let (mut found, mut theirs, mut warped, mut ours) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for &count in counts {
        let scene = Scene::of(MASSTREE, count, THREADS);
        let (docker, with) = (linux(&scene, trial)?, with("", &scene, trial)?);
        found.push(measure(&format!("fig14.mean-{count}"), with.mean() / docker.mean(), "")?);
        found.push(measure(&format!("fig14.p99-{count}"), with.p99() / docker.p99(), "")?);
        found.push(measure(&format!("fig14.rate-{count}"), with.rate() / docker.rate(), "")?);
        theirs.push(parties(count, calm, trial)?);
        warped.push(bvt(count, trial)?);
        ours.push(with);
    }
    let ratios = |of: fn(&Seen) -> f64, others: &[(f64, Seen)]| -> Vec<f64> {
        ours.iter().zip(others).map(|(with, (_, other))| of(with) / of(other)).collect()
    };
    let (means, p99s, rates) = (ratios(Seen::mean, &theirs), ratios(Seen::p99, &theirs), ratios(Seen::rate, &theirs));
    let (warp_means, warp_p99s, warp_rates) =
        (ratios(Seen::mean, &warped), ratios(Seen::p99, &warped), ratios(Seen::rate, &warped));
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let text = |(point, seen): &(f64, Seen)| format!("{point}: {:.2} and {:.2}", seen.mean(), seen.p99());
    let all = |of: &[(f64, Seen)]| of.iter().map(text).collect::<Vec<_>>().join("; ");
    let note = format!("parties' best target, its mean and p99, ms: {}", all(&theirs));
    found.push(measure("fig11.mean", mean(means.clone()), note)?);
    found.push(measure("fig11.p99", mean(p99s.clone()), "")?);
    found.push(measure("fig11.mean-most", least(&means), "")?);
    found.push(measure("fig11.p99-most", least(&p99s), "")?);
    found.push(measure("fig11.rate", most(&rates), "")?);
    let switches = |seen: &Seen| seen.switches as f64;
    let use_of_cpus = |seen: &Seen| seen.use_of_cpus;
    found.push(measure("fig11.switches", mean(ratios(switches, &theirs)), "")?);
    found.push(measure("fig11.use", mean(ratios(use_of_cpus, &theirs)), "")?);
    if let [few, many] = &theirs[..] {
        found.push(measure("fig11.parties-switches", switches(&many.1) / switches(&few.1), "")?);
        found.push(measure("fig11.parties-use", use_of_cpus(&many.1) / use_of_cpus(&few.1), "")?);
    }
    let note = format!("BVT's best warp, its mean and p99, ms: {}", all(&warped));
    found.push(measure("fig12.mean", 1.0 / least(&warp_means), note)?);
    found.push(measure("fig12.p99", 1.0 / least(&warp_p99s), "")?);
    found.push(measure("fig12.rate", most(&warp_rates), "")?);
    found.push(measure("intro.opponents-mean", least(&means).min(least(&warp_means)), "")?);
    found.push(measure("intro.opponents-p99", least(&p99s).min(least(&warp_p99s)), "")?);
    Ok(found)
}
