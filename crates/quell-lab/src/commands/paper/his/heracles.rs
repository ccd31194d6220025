//! Figures 3.9 to 3.13: services beside backgrounds, with HIS, Heracles in three forms, parties and split cores.

use anyhow::{Context, Result};
use quell_evidence::Measure;
use quell_sim::WorkloadSpec;
use quell_sim::experiment::assumed::assumed;
use quell_sim::experiment::his::{self, BACKGROUNDS, CORES, HALF, SERVICES, Seen, Span, background, batch, service};

use super::super::trial::Trial;
use super::{geometric_mean, measure, policy, span};

/// Figures 3.9 and 3.10.
pub fn profiles(trial: Trial) -> Result<Vec<Measure>> {
    let span = span(trial, 5, 120);
    let mut tails = Vec::new();
    let mut bandwidth = Vec::new();
    for (name, ..) in SERVICES {
        let own = service(name).context("a service of the text")?;
        let seen = his::run(&[own], Vec::new(), &mut policy("none", "")?, span)?;
        tails.push(seen.tail_ms(0.99));
        bandwidth.push(seen.bandwidth(0));
    }
    let ordered = bandwidth[0] < bandwidth[1] && bandwidth[1] < bandwidth[2];
    let note = format!("GB/s: xapian {:.2}, moses {:.2}, sphinx {:.2}", bandwidth[0], bandwidth[1], bandwidth[2]);
    Ok(vec![
        measure("fig3.9.xapian", tails[0], "")?,
        measure("fig3.9.moses", tails[1], "")?,
        measure("fig3.9.sphinx", tails[2], "")?,
        measure("fig3.10.order", f64::from(u8::from(ordered)), note)?,
    ])
}

/// Heracles' parameters: all controllers each second (§3.5.2), its load relative to the peak.
fn heracles(form: &str, rate: f64, intervals: (&str, &str)) -> String {
    let (top, sub) = intervals;
    let peak = rate / assumed("his.heracles-peak");
    format!(
        "form = \"{form}\"\ninterval = \"{top}\"\nsubinterval = \"{sub}\"\nfrequency = true\npeak_rate = {peak:.3}\ncooldown = \"300s\""
    )
}

/// A service without a set of its own beside a background: the policy divides.
fn free(name: &str, back: &str) -> Result<[WorkloadSpec; 2]> {
    let own = service(name).context("a service of the text")?;
    Ok([WorkloadSpec { cpuset: None, ..own }, batch(back, CORES - HALF)])
}

fn with(name: &str, back: &str, of: (&str, &str), span: Span) -> Result<Seen> {
    Ok(his::run(&free(name, back)?, Vec::new(), &mut policy(of.0, of.1)?, span)?)
}

/// Figures 3.11 to 3.13.
pub fn measures(trial: Trial) -> Result<Vec<Measure>> {
    let quick = if trial.quick { "solo = \"300ms\"" } else { "" };
    let second = ("1s", "1s");
    let (mut naive, mut work, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for (name, rate, _) in SERVICES {
        // A p99 needs some hundred requests.
        let span = span(trial, 15, if name == "sphinx" { 120 } else { 30 });
        let mut most = (0.0, "");
        let mut forms = [0.0f64; 4];
        for back in BACKGROUNDS {
            let ours = with(name, back, ("his", quick), span)?;
            let thesis = with(name, back, ("heracles", &heracles("thesis", rate, second)), span)?;
            let split = [service(name).context("a service of the text")?, background(back)];
            let split = his::run(&split, Vec::new(), &mut policy("none", "")?, span)?;
            let ratio = thesis.tail_ms(0.99) / ours.tail_ms(0.99);
            if ratio > most.0 {
                most = (ratio, back);
            }
            naive.push(split.tail_ms(0.99) / thesis.tail_ms(0.99));
            work.push(ours.speed(1) / thesis.speed(1).max(1e-9));
            if !trial.quick && trial.is_first() {
                let of = |form| with(name, back, ("heracles", &heracles(form, rate, second)), span);
                let others = [of("printed")?, of("prose")?, with(name, back, ("parties", ""), span)?, split];
                for (most, other) in forms.iter_mut().zip(&others) {
                    *most = most.max(other.tail_ms(0.99) / ours.tail_ms(0.99));
                }
            }
        }
        let [printed, prose, parties, split] = forms;
        let note = match printed > 0.0 {
            true => format!(
                "beside {}; the most of the others over HIS: printed {printed:.2}, prose {prose:.2}, parties {parties:.2}, \
                 split cores {split:.2}",
                most.1
            ),
            false => format!("beside {}", most.1),
        };
        found.push(measure(&format!("fig3.11.{name}"), most.0, note)?);
    }
    found.push(measure("fig3.11.naive", geometric_mean(&naive), "")?);
    found.push(measure("fig3.12.work", geometric_mean(&work), "")?);
    found.extend(intervals(trial, quick)?);
    Ok(found)
}

fn intervals(trial: Trial, quick: &str) -> Result<Vec<Measure>> {
    let span = span(trial, 15, 120);
    let (_, rate, _) = SERVICES[2];
    let tail = |of: (&str, &str)| -> Result<f64> {
        let each: Result<Vec<f64>> =
            ["SP", "facesim"].iter().map(|back| Ok(with("sphinx", back, of, span)?.tail_ms(0.99))).collect();
        Ok(geometric_mean(&each?))
    };
    let at = |top, sub| tail(("heracles", &heracles("thesis", rate, (top, sub))));
    let (long, one, half, tenth) = (at("15s", "2s")?, at("1s", "1s")?, at("500ms", "500ms")?, at("100ms", "100ms")?);
    let ours = tail(("his", quick))?;
    let best = long.min(one).min(half).min(tenth);
    let note = format!("p99, ms: 15 and 2 s {long:.0}, 1 s {one:.0}, 0.5 s {half:.0}, 0.1 s {tenth:.0}, HIS {ours:.0}");
    Ok(vec![
        measure("fig3.13.short", half.min(tenth) / one, note)?,
        measure("fig3.13.his", ours / best, "beside SP and facesim, geometric mean")?,
    ])
}
