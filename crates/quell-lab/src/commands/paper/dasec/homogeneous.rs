//! Services of one kind alone, in VMs (§2, §6.1, §6.4, §6.5), by consolidation ratio.

use anyhow::{Context, Result};
use quell_evidence::Measure;
use quell_model::{Nanos, ThreadId};
use quell_policy::AnyPolicy;
use quell_sim::experiment::dasec::{self, CPUS, KINDS, Kind, Scene, Scheduler, Seen, THREADS};

use super::super::trial::Trial;
use super::{linux, mean, measure, policy, span, with};

/// A run on Linux and one with dasec.
struct Pair {
    ratio: f64,
    linux: Seen,
    dasec: Seen,
}

impl Pair {
    fn mean(&self) -> f64 {
        self.dasec.mean() / self.linux.mean()
    }

    fn p99(&self) -> f64 {
        self.dasec.p99() / self.linux.p99()
    }

    fn rate(&self) -> f64 {
        self.dasec.rate() / self.linux.rate()
    }
}

/// Of one kind, by ratio.
struct Of {
    kind: Kind,
    pairs: Vec<Pair>,
}

impl Of {
    fn at(&self, ratio: f64) -> Option<&Pair> {
        self.pairs.iter().find(|pair| pair.ratio == ratio)
    }

    fn last(&self) -> Result<&Pair> {
        self.at(3.2).context("the highest ratio is always run")
    }

    fn first(&self) -> Result<&Pair> {
        self.at(0.4).context("the lowest ratio is always run")
    }
}

fn scene(kind: Kind, ratio: f64) -> Scene {
    Scene::in_vms(kind, (ratio * f64::from(CPUS / THREADS)).round() as u32, THREADS)
}

fn all(trial: Trial) -> Result<Vec<Of>> {
    let ratios: &[f64] = if trial.quick { &[0.4, 3.2] } else { &[0.4, 0.8, 1.6, 3.2] };
    let pair = |kind, ratio| {
        let scene = scene(kind, ratio);
        Ok(Pair { ratio, linux: linux(&scene, trial)?, dasec: with("", &scene, trial)? })
    };
    KINDS
        .iter()
        .map(|&kind| Ok(Of { kind, pairs: ratios.iter().map(|&ratio| pair(kind, ratio)).collect::<Result<_>>()? }))
        .collect()
}

/// All rows of these sections.
pub fn measures(trial: Trial) -> Result<Vec<Measure>> {
    let all = all(trial)?;
    let mut found = vec![conflict(trial)?];
    let (plain, preferred) = (dasec::units(false)?, dasec::units(true)?);
    found.push(measure("fig4.units", preferred / plain, format!("{plain:.2} units, then {preferred:.2}"))?);
    found.extend(latencies(&all[0])?);
    found.extend(whole(&all)?);
    if !trial.quick {
        found.extend(by_ratio(&all)?);
        found.extend(parts(&all, trial)?);
    }
    Ok(found)
}

/// The policy's own slices: eight services, each thread alike.
fn conflict(trial: Trial) -> Result<Measure> {
    let mut policy = policy("dasec", "tsa = false")?;
    dasec::run(&scene(KINDS[0], 1.6), Scheduler::Cfs, &mut policy, dasec::short(span(trial).seed))?;
    let AnyPolicy::Dasec(policy) = &policy else { anyhow::bail!("another policy") };
    let slice = policy.slice_of(ThreadId { tid: 1, start: 0 }).unwrap_or(Nanos::ZERO);
    measure("conflict", slice.0 as f64 / 1e6, "two of them on a core exceed its 80 ms")
}

fn latencies(masstree: &Of) -> Result<Vec<Measure>> {
    let (first, last) = (masstree.first()?, masstree.last()?);
    let note = |of: fn(&Pair) -> &Seen| {
        let text = |pair: &Pair| format!("{}: {:.2} and {:.2}", pair.ratio, of(pair).mean(), of(pair).p99());
        format!("mean and p99, ms, at {}", masstree.pairs.iter().map(text).collect::<Vec<_>>().join("; "))
    };
    Ok(vec![
        measure("fig1.masstree-mean-3.2", last.linux.mean() / first.linux.mean(), note(|pair| &pair.linux))?,
        measure("fig1.masstree-p99-3.2", last.linux.p99() / first.linux.p99(), "")?,
        measure("fig1.masstree-dasec-mean", last.dasec.mean() / first.dasec.mean(), note(|pair| &pair.dasec))?,
        measure("fig1.masstree-dasec-p99", last.dasec.p99() / first.dasec.p99(), "")?,
    ])
}

/// Rows that need the lowest and the highest ratio alone.
fn whole(all: &[Of]) -> Result<Vec<Measure>> {
    let mut found = Vec::new();
    let (mut means, mut p99s, mut grows) = (Vec::new(), Vec::new(), Vec::new());
    for of in all {
        let (first, last) = (of.first()?, of.last()?);
        let name = of.kind.name;
        if name == "masstree" || name == "img-dnn" {
            found.push(measure(&format!("fig2.{name}-3.2"), 1.0 / last.rate(), "")?);
        }
        let note = format!("{:.0} requests/s", last.linux.rate());
        found.push(measure(&format!("tab1.{name}-linux"), 100.0 * last.linux.use_of_cpus, note)?);
        let note = format!("{:.0} requests/s", last.dasec.rate());
        found.push(measure(&format!("tab1.{name}-dasec"), 100.0 * last.dasec.use_of_cpus, note)?);
        means.push(last.mean());
        p99s.push(last.p99());
        grows.push(first.mean() / last.mean());
    }
    let note = |values: &[f64]| {
        let each = all.iter().zip(values).map(|(of, value)| format!("{} {value:.2}", of.kind.name));
        each.collect::<Vec<_>>().join(", ")
    };
    found.push(measure("intro.mean", mean(means.clone()), note(&means))?);
    found.push(measure("intro.p99", mean(p99s.clone()), note(&p99s))?);
    found.push(measure("abstract", mean(means.iter().chain(&p99s).copied()), "")?);
    found.push(measure("grows", mean(grows.clone()), note(&grows))?);
    let two = &all[2..];
    let over = |of: fn(&Pair) -> f64| -> Result<f64> {
        Ok(mean(two.iter().map(|kind| Ok(of(kind.last()?) / of(kind.first()?))).collect::<Result<Vec<f64>>>()?))
    };
    found.push(measure("fig7.mean-3.2", over(Pair::mean)?, "")?);
    found.push(measure("fig7.p99-3.2", over(Pair::p99)?, "")?);
    let low = two.iter().map(|kind| Ok(kind.first()?.rate())).collect::<Result<Vec<f64>>>()?;
    found.push(measure("fig8.0.4", mean(low), "")?);
    let low = all.iter().map(|of| Ok(of.first()?.mean())).collect::<Result<Vec<f64>>>()?;
    found.push(measure("overhead.most", low.iter().copied().fold(0.0, f64::max), note(&low))?);
    Ok(found)
}

/// Rows that need every ratio.
fn by_ratio(all: &[Of]) -> Result<Vec<Measure>> {
    let at = |of: usize, ratio: f64| all[of].at(ratio).context("every ratio was run");
    let (first, middle) = (at(0, 0.4)?, at(0, 1.6)?);
    let (low, high) = (at(1, 0.8)?, at(1, 1.6)?);
    let grows = high.linux.mean() / low.linux.mean();
    let beside = at(0, 1.6)?.linux.mean() / at(0, 0.8)?.linux.mean();
    let mut found = vec![
        measure("fig1.masstree-mean-1.6", middle.linux.mean() / first.linux.mean(), "")?,
        measure("fig1.masstree-p99-1.6", middle.linux.p99() / first.linux.p99(), "")?,
        measure("fig1.img-dnn-mean", grows, "")?,
        measure("fig1.img-dnn-p99", high.linux.p99() / low.linux.p99(), "")?,
        measure("fig1.img-dnn-dasec-mean", high.mean(), "")?,
        measure("fig1.img-dnn-dasec-p99", high.p99(), "")?,
        measure("fig1.img-dnn-faster", grows / beside, "")?,
    ];
    for of in &all[..2] {
        let name = of.kind.name;
        let rates = mean(of.pairs.iter().map(|pair| 1.0 / pair.rate()));
        found.push(measure(&format!("fig2.{name}-mean"), rates, "")?);
        let pair = of.at(1.6).context("every ratio was run")?;
        let note = |seen: &Seen| format!("{} occasions", seen.occasions.iter().sum::<u64>());
        // More than 13 of 16 wait: at most two are ready.
        found.push(measure(&format!("fig3.{name}-linux"), pair.linux.at_most_ready(2), note(&pair.linux))?);
        found.push(measure(&format!("fig3.{name}-dasec"), pair.dasec.at_most_ready(2), note(&pair.dasec))?);
    }
    let silo = at(3, 1.6)?;
    found.push(measure("fig3.silo-one", silo.linux.at_most_ready(1), "")?);
    found.push(measure("fig3.silo-two", silo.linux.at_most_ready(2), "")?);
    let two = || all[2..].iter().flat_map(|of| &of.pairs);
    found.push(measure("fig7.mean", mean(two().map(Pair::mean)), "")?);
    found.push(measure("fig7.p99", mean(two().map(Pair::p99)), "")?);
    found.push(measure("fig8.mean", mean(two().map(Pair::rate)), "")?);
    found.push(measure("fig8.most", two().map(Pair::rate).fold(0.0, f64::max), "")?);
    let uncrowded = all.iter().flat_map(|of| of.pairs.iter().filter(|pair| pair.ratio < 1.0)).map(Pair::mean);
    found.push(measure("overhead.mean", mean(uncrowded), "")?);
    Ok(found)
}

/// Figure 13.
fn parts(all: &[Of], trial: Trial) -> Result<Vec<Measure>> {
    let mut of_kinds = Vec::new();
    for of in all {
        let pair = of.at(1.6).context("every ratio was run")?;
        let without = with("rcr = false", &scene(of.kind, 1.6), trial)?;
        let (linux, both) = (pair.linux.rate(), pair.dasec.rate());
        of_kinds.push((without.rate() - linux, both - linux));
    }
    // Nothing has no part, and of two parts that are none neither is the larger.
    let ratio = |some: f64, whole: f64, none: f64| if whole == 0.0 { none } else { some / whole };
    let part = |of: &[(f64, f64)]| {
        let (some, whole): (f64, f64) = of.iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        ratio(some, whole, 0.0)
    };
    let note = format!("requests/s that TSA and RLA add, and that all add: {}", {
        let each =
            all.iter().zip(&of_kinds).map(|(of, (some, whole))| format!("{} {some:.1}, {whole:.1}", of.kind.name));
        each.collect::<Vec<_>>().join("; ")
    });
    Ok(vec![
        measure("fig13.tsa-rla", mean(of_kinds.iter().map(|&(some, whole)| ratio(some, whole, 0.0))), note)?,
        measure("fig13.kinds", ratio(part(&of_kinds[2..]), part(&of_kinds[..2]), 1.0), "")?,
    ])
}
