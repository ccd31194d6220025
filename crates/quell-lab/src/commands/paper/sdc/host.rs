//! Figures 5.2, 5.3, 5.5 and 5.6: one host.

use anyhow::Result;
use quell_evidence::Measure;
use quell_model::Nanos;
use quell_policy::AnyPolicy;
use quell_sim::experiment::assumed::assumed;
use quell_sim::experiment::sdc::{self, CORES, HOSTS, LOCAL, Load, Seen, Span};

use super::super::trial::Trial;
use super::{cluster, local_scheduler, measure, span};

fn none() -> Result<AnyPolicy> {
    Ok(AnyPolicy::build("none", toml::Table::new())?)
}

/// One to eight copies of a program, over one of them: slowdown, and events a copy.
struct Course {
    slowdown: Vec<f64>,
    full: Vec<f64>,
    /// Events a second of the host.
    host: Vec<f64>,
    misses: f64,
}

impl Course {
    fn of(name: &str, trial: Trial) -> Result<Course> {
        let length = Nanos::from_millis(if trial.quick { 200 } else { 1000 });
        let span = Span { seed: trial.seed, warm_up: length, measured: length };
        let seen: Vec<Seen> = (1..=CORES)
            .map(|count| Ok(sdc::run(&sdc::copies(name, count), &mut none()?, span)?))
            .collect::<Result<_>>()?;
        let each = |of: fn(&Seen) -> f64| seen.iter().zip(1u32..).map(move |(seen, count)| of(seen) / f64::from(count));
        let (alone, full) = (seen[0].speed(), seen[0].full());
        Ok(Course {
            slowdown: each(Seen::speed).map(|speed| alone / speed).collect(),
            full: each(Seen::full).map(|now| now / full).collect(),
            host: seen.iter().map(Seen::full).collect(),
            misses: seen[0].misses(),
        })
    }

    /// The least factor from one number of copies to the next.
    fn least_step(course: &[f64]) -> f64 {
        course.windows(2).map(|pair| pair[1] / pair[0]).fold(f64::INFINITY, f64::min)
    }
}

/// Pearson's.
fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|pair| of(pair.0 - x, pair.1 - y)).sum::<f64>();
    sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt()
}

/// Figures 5.2 and 5.3.
pub fn metrics(trial: Trial) -> Result<Vec<Measure>> {
    let of = |name| Course::of(name, trial);
    let (lbm, gems, zeusmp, sjeng) = (of("lbm")?, of("GemsFDTD")?, of("zeusmp")?, of("sjeng")?);
    let all = [&lbm, &gems, &zeusmp, &sjeng];
    let pairs: Vec<(f64, f64)> =
        all.iter().flat_map(|of| of.full.iter().copied().zip(of.slowdown.iter().copied())).collect();
    let last = |course: &[f64]| course[course.len() - 1];
    let slowdowns = format!(
        "eight copies: lbm {:.2}, GemsFDTD {:.2}, zeusmp {:.2}, sjeng {:.2}",
        last(&lbm.slowdown),
        last(&gems.slowdown),
        last(&zeusmp.slowdown),
        last(&sjeng.slowdown)
    );
    let misses = format!(
        "lbm {:.2}, GemsFDTD {:.2}, zeusmp {:.2}, sjeng {:.2}",
        lbm.misses, gems.misses, zeusmp.misses, sjeng.misses
    );
    let rates = format!(
        "a second alone: lbm {:.3e}, GemsFDTD {:.3e}, zeusmp {:.3e}, sjeng {:.3e}",
        lbm.host[0], gems.host[0], zeusmp.host[0], sjeng.host[0]
    );
    let steps = |of: fn(&Course) -> &[f64]| Course::least_step(of(&lbm)).min(Course::least_step(of(&gems)));
    let growth = lbm.host[7] / lbm.host[3];
    Ok(vec![
        measure("fig5.2.correlation", correlation(&pairs), "")?,
        measure("fig5.2.memory-slowdown", steps(|of| &of.slowdown), slowdowns)?,
        measure("fig5.2.memory-mbfr", steps(|of| &of.full), "")?,
        measure("fig5.2.cpu-slowdown", last(&zeusmp.slowdown).max(last(&sjeng.slowdown)), "")?,
        measure("fig5.2.cpu-mbfr", last(&zeusmp.full).max(last(&sjeng.full)), "")?,
        measure("fig5.3.lbm-zeusmp", lbm.misses / zeusmp.misses, misses)?,
        measure("fig5.3.lbm-sjeng", lbm.misses / sjeng.misses, "")?,
        measure("fig5.3.mbfr", lbm.host[0].min(gems.host[0]) / zeusmp.host[0].max(sjeng.host[0]), rates)?,
        measure("fig5.3.quadratic", growth, "")?,
        measure("half", growth, "")?,
    ])
}

/// Figure 5.4: memcached alone on its host, from a tenth of its peak to all of it.
pub fn interrupts(trial: Trial) -> Result<Vec<Measure>> {
    let length = Nanos::from_millis(if trial.quick { 300 } else { 1000 });
    let span = Span { seed: trial.seed, warm_up: length, measured: length };
    let (peak, _) = sdc::interrupts(Load::Peak, span)?;
    let rates = (1..=10u32).map(|tenth| peak * f64::from(tenth) / 10.0);
    let seen: Vec<(f64, (f64, f64))> =
        rates.map(|rate| Ok((rate, sdc::interrupts(Load::Rate(rate), span)?))).collect::<Result<_>>()?;
    let with_rate: Vec<_> = seen.iter().map(|(rate, (served, _))| (*rate, *served)).collect();
    let with_served: Vec<_> = seen.iter().map(|(_, pair)| *pair).collect();
    let (first, last) = (with_served[0], with_served[with_served.len() - 1]);
    let note = format!("{:.0} to {:.0} a second at {:.0} to {:.0} requests", first.1, last.1, first.0, last.0);
    Ok(vec![
        measure("fig5.4.throughput", correlation(&with_rate), "")?,
        measure("fig5.4.softirqs", correlation(&with_served), note)?,
    ])
}

/// Figure 5.5 on OpenStack, and the threshold's load.
pub fn local(trial: Trial) -> Result<Vec<Measure>> {
    let span = span(trial);
    let peak = |of, mut policy| -> Result<Seen> { Ok(sdc::run(&sdc::among(of, Load::Peak), &mut policy, span)?) };
    let (default, ours) = (peak(LOCAL, none()?)?.throughput(), peak(LOCAL, local_scheduler(trial)?)?.throughput());
    let high = Load::Rate(assumed("sdc.high-load") * default);
    let at = |mut policy| -> Result<f64> { Ok(sdc::run(&sdc::among(LOCAL, high), &mut policy, span)?.tail_ms()) };
    let (before, after) = (at(none()?)?, at(local_scheduler(trial)?)?);
    let alone = peak((0, 0), none()?)?.throughput();
    let load = sdc::among((0, 0), Load::Rate(0.75 * alone));
    let threshold = sdc::run(&load, &mut none()?, span)?.tail_ms();
    let note = format!("{default:.0} and {ours:.0} requests a second, {alone:.0} alone on the host");
    Ok(vec![
        measure("threshold", threshold, format!("at {:.0} requests a second", 0.75 * alone))?,
        measure("fig5.5.throughput", ours / default, note)?,
        measure("fig5.5.latency", after / before, format!("{before:.3} and {after:.3} ms"))?,
    ])
}

/// Figure 5.6 on OpenStack.
pub fn global(trial: Trial) -> Result<Vec<Measure>> {
    let span = span(trial);
    let peak = |host: usize, mut policy| -> Result<Seen> {
        Ok(sdc::run(&sdc::among(HOSTS[host], Load::Peak), &mut policy, span)?)
    };
    let host = cluster::chosen(trial)?;
    let (default, ours) = (peak(0, none()?)?, peak(host, local_scheduler(trial)?)?);
    let times = ours.throughput() / default.throughput();
    let note = format!("{:.0} and {:.0} requests a second", default.throughput(), ours.throughput());
    let tails = format!("{:.3} and {:.3} ms", default.tail_ms(), ours.tail_ms());
    Ok(vec![
        measure("fig5.6.default-host", 1.0, "set")?,
        measure("fig5.6.host", host as f64 + 1.0, "")?,
        measure("fig5.6.throughput", times, note)?,
        measure("fig5.6.latency", ours.tail_ms() / default.tail_ms(), tails)?,
        measure("abstract.throughput", times, "")?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_correlates_and_steps_are_the_least() {
        assert!((correlation(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]) - 1.0).abs() < 1e-9);
        assert!((correlation(&[(1.0, 2.0), (2.0, 0.0), (3.0, -2.0)]) + 1.0).abs() < 1e-9);
        assert!((Course::least_step(&[1.0, 2.0, 2.2]) - 1.1).abs() < 1e-9);
    }
}
