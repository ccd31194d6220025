//! Random mixes with verify and without.

use anyhow::{Context, Result, bail};
use quell_evidence::Measure;
use quell_model::trial::Then;
use quell_model::{Host, LeaseLimits, Nanos, Plan, Stack};
use quell_policy::AnyPolicy;
use quell_policy::edgeiso::EdgeIso;
use quell_policy::edgeiso::technique::Technique;
use quell_sim::SimHost;
use quell_sim::experiment::trials::Mix;
use quell_sim::host::drive;
use quell_sim::workload::WorkloadStats;
use rayon::prelude::*;

use super::super::progress_bar;
use super::super::trial::Trial;
use super::{geometric_mean, measure, part};

/// Mixes a seed: five seeds make 200.
const MIXES: u32 = 40;
/// Of a quick run.
const QUICK: u32 = 20;
/// Not counted at the beginning: the solo runs.
const WARM_UP: Nanos = Nanos::from_secs(8);
/// How long a lifted technique is looked at.
const LIFTED: Nanos = Nanos::from_secs(5);
/// A service has so much of a technique, or that is useless.
const LEAST_CYCLES: f64 = 0.02;
const LEAST_TAIL: f64 = 0.05;
/// A service whose tail is this many times as long is listed.
const BEYOND: f64 = 1.25;

/// What one run showed.
struct Seen {
    /// By workload: p99, and instructions.
    tails: Vec<f64>,
    work: Vec<f64>,
    /// Techniques in force before the load's step, and those of them that are useless.
    in_force: usize,
    useless: Vec<&'static str>,
    /// Is something stronger at the end than before the step?
    stronger: Option<String>,
    /// The trials.
    found: Vec<String>,
}

/// The policy.
pub(super) fn policy(verify: bool) -> Result<EdgeIso> {
    let table: toml::Table = toml::from_str(&format!("verify = {verify}\nsolo = \"1s\""))?;
    match AnyPolicy::build("edgeiso", table)? {
        AnyPolicy::Edgeiso(policy) => Ok(policy),
        _ => bail!("edgeiso is another policy"),
    }
}

/// Runs a mix.
fn run(mix: &Mix, verify: bool) -> Result<Seen> {
    let mut host = mix.host()?;
    // Three services are profiled within the warm-up.
    host.limit_leases(LeaseLimits { duty_per_mille: 500, ..LeaseLimits::default() });
    let mut stack = Stack::of_one(policy(verify)?, host.view());
    let mut found = Vec::new();
    let mut remember = |_: &SimHost, stack: &Stack<EdgeIso>| {
        let ended = |trial: &&quell_model::Trial| matches!(trial.then, Then::Kept | Then::Undone);
        let text = |trial: &quell_model::Trial| {
            let [from, to] =
                [trial.from, trial.to].map(|value| value.map_or("-".to_owned(), |value| value.to_string()));
            let on = trial.on.map_or("-".to_owned(), |id| id.0.to_string());
            let (before, after) = (trial.before.median, trial.after.median);
            let knob = trial.knob.name();
            let victim = trial.victim.0;
            format!("{knob} {on} for {victim} {from}→{to} {before:.3}→{after:.3} {:?}", trial.finding).to_lowercase()
        };
        found.extend(stack.first().plan.trials.iter().filter(ended).map(text));
    };
    drive(&mut host, &mut stack, WARM_UP, &mut remember);
    host.end_warm_up();
    drive(&mut host, &mut stack, Mix::STEP, &mut remember);
    // A search that goes on is no decision yet.
    let mut at = Mix::STEP;
    let (mut in_force, mut useless) = (0, Vec::new());
    for technique in Technique::ALL {
        let is_tried = stack.first().policy.trial().is_some_and(|trial| trial.knob == technique.knob());
        let Some(knobs) = stack.first().policy.without(technique, stack.view()).filter(|_| !is_tried) else { continue };
        in_force += 1;
        let tail = |host: &SimHost, plan: &Plan| -> Result<Vec<(f64, f64)>> {
            let mut host = host.clone();
            let Ok(()) = host.apply(plan, &mut Vec::new());
            let mut none = Stack::of_one(AnyPolicy::named("none").context("a policy of the registry")?, host.view());
            host.end_warm_up();
            drive(&mut host, &mut none, at + LIFTED, |_, _| {});
            let stats = host.sim().stats();
            let of = |stats: &WorkloadStats| {
                (stats.counted.cycles / stats.counted.instructions.max(1.0), stats.latencies.quantile(0.99).0 as f64)
            };
            Ok(stats.iter().take(mix.services).map(of).collect())
        };
        let with = tail(&host, &Plan::default())?;
        let without = tail(&host, &Plan { knobs, ..Plan::default() })?;
        let is_of_use = with.iter().zip(&without).any(|((cycles, tail), (lifted_cycles, lifted_tail))| {
            *lifted_cycles > cycles * (1.0 + LEAST_CYCLES) || *lifted_tail > tail * (1.0 + LEAST_TAIL)
        });
        if !is_of_use {
            useless.push(technique.knob().name());
        }
    }
    let before = stack.first().policy.isolation().clone();
    drive(&mut host, &mut stack, Mix::END, &mut remember);
    let stats = host.sim().stats();
    // A search that goes on at the end may be undone yet.
    at = Mix::END;
    while stack.first().policy.trial().is_some() && at < Mix::END + Nanos::from_secs(20) {
        at += Nanos::from_millis(100);
        drive(&mut host, &mut stack, at, &mut remember);
    }
    let stronger = mix.is_halved.then(|| stack.first().policy.isolation().stronger_than(&before)).flatten();
    Ok(Seen {
        tails: stats.iter().take(mix.services).map(|stats| stats.latencies.quantile(0.99).0 as f64).collect(),
        work: stats.iter().skip(mix.services).map(|stats| stats.counted.instructions).collect(),
        in_force,
        useless,
        stronger: stronger.map(|technique| technique.knob().name().to_owned()),
        found,
    })
}

/// All mixes of a seed.
pub(super) fn measures(trial: Trial) -> Result<Vec<Measure>> {
    let count = if trial.quick { QUICK } else { MIXES };
    let bar = progress_bar(count.into());
    let pairs = (0..count).into_par_iter().with_max_len(1).map(|number| {
        let mut mix = Mix::random(trial.seed, number.into());
        // A service of another owner is not paused: it runs beside the solo runs.
        mix.workloads.iter_mut().for_each(|workload| workload.pausable = false);
        let pair = (run(&mix, false)?, run(&mix, true)?);
        bar.inc(1);
        Ok((mix, pair))
    });
    let pairs: Vec<(Mix, (Seen, Seen))> = pairs.collect::<Result<_>>()?;
    bar.finish_and_clear();
    let (mut tails, mut work, mut beyond) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (mix, (off, on))) in pairs.iter().enumerate() {
        let ratios: Vec<f64> = on.tails.iter().zip(&off.tails).map(|(on, off)| on / off.max(1.0)).collect();
        for (ratio, spec) in ratios.iter().zip(&mix.workloads).filter(|(ratio, _)| **ratio > BEYOND) {
            beyond.push(format!("{} of mix {number} {ratio:.2} ({})", spec.name, on.found.join("; ")));
        }
        tails.push(geometric_mean(&ratios));
        work.push(on.work.iter().sum::<f64>() / off.work.iter().sum::<f64>().max(1.0));
    }
    let sum = |of: fn(&(Seen, Seen)) -> usize| pairs.iter().map(|(_, pair)| of(pair)).sum::<usize>();
    let services = pairs.iter().map(|(mix, _)| mix.services).sum();
    let list = |of: fn(&(Seen, Seen)) -> &Seen| {
        let names = pairs.iter().flat_map(|(_, pair)| of(pair).useless.iter().copied());
        let mut counted = std::collections::BTreeMap::new();
        names.for_each(|name| *counted.entry(name).or_insert(0) += 1);
        counted.iter().map(|(name, times)| format!("{name} {times}")).collect::<Vec<_>>().join(", ")
    };
    let halved = pairs.iter().filter(|(mix, _)| mix.is_halved).count();
    let stronger: Vec<&str> = pairs.iter().filter_map(|(_, (_, on))| on.stronger.as_deref()).collect();
    Ok(vec![
        measure("p99", geometric_mean(&tails), format!("{count} mixes"))?,
        measure("work", geometric_mean(&work), format!("{count} mixes"))?,
        measure("beyond", part(beyond.len(), services), beyond.join("; "))?,
        measure(
            "useless",
            part(sum(|(_, on)| on.useless.len()), sum(|(_, on)| on.in_force)),
            format!("of {} in force; useless: {}", sum(|(_, on)| on.in_force), list(|(_, on)| on)),
        )?,
        measure(
            "useless-off",
            part(sum(|(off, _)| off.useless.len()), sum(|(off, _)| off.in_force)),
            format!("of {} in force; useless: {}", sum(|(off, _)| off.in_force), list(|(off, _)| off)),
        )?,
        measure("stronger", part(stronger.len(), halved), format!("of {halved}: {}", stronger.join(", ")))?,
    ])
}
