//! Who streams, without counters: each best-effort workload is paused for moments.

use anyhow::{Context, Result, bail};
use quell_evidence::Measure;
use quell_model::{Nanos, Stack, WorkloadId};
use quell_policy::AnyPolicy;
use quell_policy::edgeiso::pausing::Named;
use quell_policy::edgeiso::searching::Searching;
use quell_sim::experiment::trials::Mix;
use quell_sim::host::drive;
use rayon::prelude::*;

use super::super::progress_bar;
use super::super::trial::Trial;
use super::mixes::policy;
use super::{measure, part};

/// Mixes a seed with one that streams, and as many with none.
const MIXES: u32 = 20;
/// Of a quick run.
const QUICK: u32 = 5;
/// The search begins after the solo runs.
const BEGIN: Nanos = Nanos::from_secs(5);
/// It is over long before.
const END: Nanos = Nanos::from_secs(600);

/// What one search showed.
struct Seen {
    named: Option<WorkloadId>,
    /// Best-effort instructions over those of the same time without pauses.
    work: f64,
    took: Nanos,
}

fn run(mix: &Mix) -> Result<Seen> {
    let mut host = mix.host()?;
    let searching = Searching::new(policy(true)?, BEGIN);
    let mut stack = Stack::of_one(searching, host.view());
    let step = Nanos::from_millis(100);
    let mut at = BEGIN;
    while stack.first().policy.begun().is_none() && at < END {
        drive(&mut host, &mut stack, at, |_, _| {});
        at += step;
    }
    host.end_warm_up();
    let mut twin = host.clone();
    let begun = host.now();
    let mut named = None;
    while named.is_none() {
        if at > END {
            bail!("no end of a search: {mix:?}");
        }
        at += step;
        drive(&mut host, &mut stack, at, |_, _| {});
        named = stack.first().policy.policy.named(at);
    }
    let mut none = Stack::of_one(AnyPolicy::named("none").context("a policy of the registry")?, twin.view());
    drive(&mut twin, &mut none, at, |_, _| {});
    let work = |host: &quell_sim::SimHost| {
        host.sim().stats().iter().skip(mix.services).map(|stats| stats.counted.instructions).sum::<f64>()
    };
    let named = match named {
        Some(Named::One(id)) => Some(id),
        Some(Named::Impossible) => bail!("the host cannot pause single workloads"),
        _ => None,
    };
    Ok(Seen { named, work: work(&host) / work(&twin).max(1.0), took: at - begun })
}

/// All mixes of a seed.
pub(super) fn measures(trial: Trial) -> Result<Vec<Measure>> {
    let count = if trial.quick { QUICK } else { MIXES };
    let bar = progress_bar((2 * count).into());
    let runs = (0..2 * count).into_par_iter().with_max_len(1).map(|number| {
        let mix = Mix::with_aggressor(trial.seed, number.into(), number < count);
        let seen = run(&mix.0)?;
        bar.inc(1);
        Ok((mix.1, seen))
    });
    let runs: Vec<(Option<WorkloadId>, Seen)> = runs.collect::<Result<_>>()?;
    bar.finish_and_clear();
    let number = |is: fn(&(Option<WorkloadId>, Seen)) -> bool| runs.iter().filter(|run| is(run)).count();
    let streams = number(|(streams, _)| streams.is_some());
    let right = number(|(streams, seen)| streams.is_some() && seen.named == *streams);
    let wrong = number(|(streams, seen)| streams.is_some() && seen.named.is_some() && seen.named != *streams);
    let blamed = number(|(streams, seen)| streams.is_none() && seen.named.is_some());
    let lost = 1.0 - runs.iter().map(|(_, seen)| seen.work).sum::<f64>() / runs.len() as f64;
    let took = runs.iter().map(|(_, seen)| seen.took.as_secs_f64()).sum::<f64>() / runs.len() as f64;
    let note = |text: &str| format!("{text} of {count}; a search takes {took:.0} s in the mean");
    Ok(vec![
        measure("aggressor.right", part(right, streams), note(&format!("{right} right, {wrong} wrong")))?,
        measure("aggressor.blamed", part(blamed, runs.len() - streams), note(&format!("{blamed} blamed")))?,
        measure("aggressor.cost", lost, "while it searches")?,
    ])
}
