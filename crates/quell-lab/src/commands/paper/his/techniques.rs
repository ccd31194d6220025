//! Table 2.1 and Figures 3.1 to 3.8.

use anyhow::Result;
use quell_evidence::Measure;
use quell_model::{KnobKind, KnobSetting};
use quell_sim::experiment::assumed::assumed;
use quell_sim::experiment::his::{
    self, BATCH, HALF, Seen, Span, apache, apache_rate, background, batch, fewer_cores, foreground, partitioned,
    throttled,
};

use super::super::trial::Trial;
use super::{geometric_mean, measure, policy, span};

/// Table 2.1 and Figures 3.1 to 3.4.
pub fn measures(trial: Trial) -> Result<Vec<Measure>> {
    let knob = |kind: KnobKind| kind.effect_latency().0 as f64 / 1e6;
    let quota = his::quota_latency(trial.seed)?;
    let mut found = vec![
        measure("tab2.1.cat", knob(KnobKind::CacheWays), "the model's constant")?,
        measure("tab2.1.dvfs", knob(KnobKind::MaxFrequencyKhz), "the model's constant")?,
        measure("tab2.1.cores", knob(KnobKind::Cpus), "the model's constant")?,
        measure("tab2.1.migration", knob(KnobKind::MemoryNodes), "the model's constant")?,
        measure("tab2.1.quota", quota, "until half of a period of 100 ms is used up, from any phase")?,
        measure("dvfs-faster", quota / knob(KnobKind::MaxFrequencyKhz), "")?,
    ];
    let [cat, limited] = his::variations(trial.seed, if trial.quick { 50 } else { 250 })?;
    let note = format!("coefficients of variation: CAT {:.4}, quota {:.4}", cat.llc, limited.llc);
    found.push(measure("fig3.1.llc", limited.llc / cat.llc.max(1e-6), note)?);
    let note = format!("CAT {:.4}, quota {:.4}", cat.foreground, limited.foreground);
    found.push(measure("fig3.1.ipc", limited.foreground / cat.foreground.max(1e-6), note)?);
    found.push(measure("fig3.1.background", limited.background / limited.foreground.max(1e-6), "")?);
    let none = || policy("none", "");
    let (quota, frequency) = (his::stepped(true, none()?, trial.seed)?, his::stepped(false, none()?, trial.seed)?);
    found.push(measure("fig3.2.p98", quota / frequency, format!("quota {quota:.2} ms, frequency {frequency:.2} ms"))?);
    found.extend(regrouped(trial)?);
    found.extend(isolated(trial)?);
    Ok(found)
}

/// Speeds of a foreground and a background, with knobs set by hand.
fn speeds(front: &str, back: &str, knobs: Vec<KnobSetting>, span: Span) -> Result<[f64; 2]> {
    let seen = his::run(&[foreground(front), background(back)], knobs, &mut policy("none", "")?, span)?;
    Ok([seen.speed(0), seen.speed(1)])
}

fn regrouped(trial: Trial) -> Result<Vec<Measure>> {
    let span = span(trial, 2, 4);
    let [canneal, sp] = speeds("canneal", "SP", partitioned(), span)?;
    let [beside_nn, _] = speeds("canneal", "nn", Vec::new(), span)?;
    let [_, beside_swaptions] = speeds("swaptions", "SP", Vec::new(), span)?;
    Ok(vec![
        measure("fig3.3.canneal", beside_nn / canneal, "each pair alone on its socket")?,
        measure("fig3.3.sp", beside_swaptions / sp, "each pair alone on its socket")?,
    ])
}

fn isolated(trial: Trial) -> Result<Vec<Measure>> {
    let span = span(trial, 2, 4);
    let (p, t, s) = (partitioned(), throttled(1_200_000), fewer_cores(HALF / 2));
    let join = |parts: &[&Vec<KnobSetting>]| parts.iter().flat_map(|part| part.iter().copied()).collect::<Vec<_>>();
    let all =
        [join(&[&p]), join(&[&t]), join(&[&s]), join(&[&t, &s]), join(&[&p, &t]), join(&[&p, &s]), join(&[&p, &t, &s])];
    let times = |name: &str| -> Result<Vec<f64>> {
        let [base, _] = speeds(name, "SP", Vec::new(), span)?;
        all.iter().map(|knobs| Ok(base / speeds(name, "SP", knobs.clone(), span)?[0])).collect()
    };
    let (stream, canneal) = (times("streamcluster")?, times("canneal")?);
    let best = canneal.iter().copied().fold(f64::INFINITY, f64::min);
    let worst = canneal[..3].iter().copied().fold(0.0, f64::max);
    let note = format!("canneal: P {:.2}, T {:.2}, S {:.2}", canneal[0], canneal[1], canneal[2]);
    Ok(vec![
        measure("fig3.4.streamcluster-p", stream[0], "")?,
        measure("fig3.4.streamcluster-t", stream[1], "1.7 GHz lies between")?,
        measure("fig3.4.streamcluster-s", stream[2], "")?,
        measure("fig3.4.streamcluster-ts", stream[3], "")?,
        measure("fig3.4.canneal-best", best, note)?,
        measure("fig3.4.canneal-each", worst, "")?,
    ])
}

/// Figures 3.7 and 3.8.
pub fn foregrounds(trial: Trial) -> Result<Vec<Measure>> {
    let span = span(trial, 12, 10);
    // A solo run of a second, then at most 20 steps of a search: within the warm-up, shortened with it.
    let quick = if trial.quick { "solo = \"300ms\"" } else { "" };
    let (mut gains, mut losses, mut canneal) = (Vec::new(), Vec::new(), 0.0);
    for name in BATCH {
        let [base, sp] = speeds(name, "SP", Vec::new(), span)?;
        let both = [his_foreground(name), batch("SP", HALF)];
        let with = his::run(&both, Vec::new(), &mut policy("his", quick)?, span)?;
        gains.push(with.speed(0) / base);
        losses.push(with.speed(1) / sp);
        if name == "canneal" {
            canneal = with.speed(0) / base;
        }
    }
    let note = BATCH.iter().zip(&gains).map(|(name, gain)| format!("{name} {gain:.2}")).collect::<Vec<_>>().join(", ");
    let mean = gains.iter().sum::<f64>() / gains.len() as f64;
    let mut found = vec![
        measure("fig3.7.canneal", canneal, "")?,
        measure("fig3.7.mean", mean, note)?,
        measure("fig3.7.background", geometric_mean(&losses), "")?,
    ];
    let web = |cores| apache(cores, apache_rate(assumed("his.apache-load")));
    let alone = |cores| -> Result<Seen> { Ok(his::run(&[web(cores)], Vec::new(), &mut policy("none", "")?, span)?) };
    let co_run = his::run(&[web(HALF), background("SP")], Vec::new(), &mut policy("none", "")?, span)?;
    let mut free = web(HALF);
    free.cpuset = None;
    let with = his::run(&[free, batch("SP", HALF)], Vec::new(), &mut policy("his", quick)?, span)?;
    let (eight, twelve) = (alone(HALF)?.tail_ms(0.999), alone(12)?.tail_ms(0.999));
    let (ours, theirs) = (with.tail_ms(0.999), co_run.tail_ms(0.999));
    let note = format!("co-run {theirs:.2} ms, HIS {ours:.2}, alone on 8 cores {eight:.2}, on 12 {twelve:.2}");
    found.push(measure("fig3.8.p999", theirs / ours, note)?);
    found.push(measure("fig3.8.background", co_run.speed(1) / with.speed(1).max(1e-9), "")?);
    found.push(measure("fig3.8.solo8", ours / eight, "")?);
    found.push(measure("fig3.8.solo12", ours / twelve, "")?);
    Ok(found)
}

/// The policy divides the cores itself.
fn his_foreground(name: &str) -> quell_sim::WorkloadSpec {
    quell_sim::WorkloadSpec { cpuset: None, ..foreground(name) }
}
