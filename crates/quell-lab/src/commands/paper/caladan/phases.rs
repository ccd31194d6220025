//! Table 1, Figures 1 and 5: the effect of a collector on memcached beside it.

use anyhow::{Context, Result};
use quell_model::{Event, GrantCommand, Nanos};
use quell_policy::AnyPolicy;
use quell_policy::none::{NoConfig, NoPolicy};
use quell_report::chart::{Axis, Chart, Form, Mark, Scale, Unit};
use quell_report::page::Block;
use quell_sim::experiment::caladan::{
    Be, Lc, Means, Span, THRESH_BW, WINDOW, Window, outside, reaction, run, static_partition, windows,
};
use quell_sim::workload::Latencies;
use rayon::prelude::*;

use super::colocation::{ALONE, CALADAN, Cell, System, targets};
use super::{Figure, Trial, measure, micros};

/// "We issue 800,000 requests per second to memcached" (§7.1).
pub const RATE: f64 = 800_000.0;

/// A client's observations over its time.
struct Phases {
    /// Without their latencies, of which there are many.
    windows: Vec<Window>,
    /// By window.
    p999: Vec<Option<Nanos>>,
    collecting: Latencies,
}

impl Phases {
    fn of(system: System, target: Nanos, span: Span) -> Result<Phases> {
        let cell = Cell { target, ..Cell::new(system, Lc::Memcached, RATE, Be::SwaptionsGc) };
        Ok(Phases::new(windows(system.means(), &cell.workloads(), &mut cell.policy(), span, WINDOW)?))
    }

    fn new(mut windows: Vec<Window>) -> Phases {
        let mut collecting = Latencies::default();
        windows.iter().filter(|window| window.collecting).for_each(|window| collecting.merge(&window.latencies[0]));
        let p999 = windows.iter().map(|window| window.p999(0)).collect();
        windows.iter_mut().for_each(|window| window.latencies = Vec::new());
        Phases { windows, p999, collecting }
    }

    /// While it collects.
    fn p999(&self) -> f64 {
        (self.collecting.quantile(0.999) + outside()).0 as f64 / 1e3
    }

    /// The window with the longest tail, µs.
    fn worst(&self) -> f64 {
        self.p999.iter().flatten().max().map_or(0.0, |tail| tail.0 as f64 / 1e3)
    }

    fn be_throughput(&self) -> f64 {
        let all: f64 = self.windows.iter().map(|window| window.instructions[1]).sum();
        all / self.windows.len().max(1) as f64
    }

    fn tails(&self) -> Vec<(f64, f64)> {
        let point =
            |(window, tail): (&Window, &Option<Nanos>)| Some((window.end.as_secs_f64(), tail.as_ref()?.0 as f64));
        self.windows.iter().zip(&self.p999).filter_map(point).collect()
    }

    fn line(&self, of: impl Fn(&Window) -> f64) -> Vec<(f64, f64)> {
        self.windows.iter().map(|window| (window.end.as_secs_f64(), of(window))).collect()
    }
}

/// Figure 5: Parties* with the target that gives it the shortest tail while the program collects.
pub fn figure5(trial: Trial) -> Result<Figure> {
    let secs = Nanos::from_secs;
    // Parties* needs seconds until it has found an allocation.
    let (settles, parties_for, caladan_for) =
        if trial.quick { (secs(4), secs(3), secs(2)) } else { (secs(15), secs(45), secs(12)) };
    let span = |warm_up, measured| Span { seed: trial.seed, warm_up, measured };
    let caladan = || Phases::of(CALADAN, ALONE, span(Nanos::from_millis(200), caladan_for));
    let asked = targets(trial.quick);
    let parties = || -> Result<Vec<Phases>> {
        let one = |&target: &Nanos| Phases::of(System::Parties, target, span(settles, parties_for));
        asked.par_iter().with_max_len(1).map(one).collect()
    };
    let (caladan, all) = rayon::join(caladan, parties);
    let (caladan, all) = (caladan?, all?);
    let work = |phases: &Phases| phases.be_throughput() / caladan.be_throughput();
    let each = asked.iter().zip(&all).map(|(target, phases)| {
        let [tail, worst] = [phases.p999(), phases.worst()].map(micros);
        format!("{} µs {tail}, {worst}, {:.2}", target.0 / 1_000, work(phases))
    });
    let each = each.collect::<Vec<_>>().join("; ");
    let best = all.iter().zip(&asked).min_by(|one, other| one.0.p999().total_cmp(&other.0.p999()));
    let (parties, target) = best.context("Parties* has no target")?;
    let note = format!(
        "asked to keep {} µs; of each target the tail while it collects, the worst 20 ms and the best-effort work over Caladan's: \
         {each}; Caladan's worst 20 ms {}",
        target.0 / 1_000,
        micros(caladan.worst())
    );
    let measures = vec![
        measure("fig5.caladan", caladan.p999(), "")?,
        measure("fig5.parties", parties.p999() / 1e3, note)?,
        measure("fig5.factor", parties.p999() / caladan.p999(), "")?,
        measure("fig5.worst", caladan.worst() / parties.worst(), "")?,
        measure("fig5.be", work(parties), "")?,
    ];
    let time = |label: &str| Axis::new(label, Scale::Linear, Unit::Plain);
    let tail = Axis::new("p99.9 over 20 ms", Scale::Log, Unit::Nanoseconds);
    let tails = Chart::new("Figure 5: memcached beside swaptions-GC", time("s"), tail)
        .with("Caladan", Form::Line, caladan.tails())
        .with("Parties*", Form::Line, parties.tails())
        .mark(Mark::AtY { y: 52e3, label: "52 µs (paper, Caladan)".into() })
        .mark(Mark::AtY { y: 580e6, label: "580 ms (paper, Parties*)".into() });
    let cores = Chart::new("Figure 5: CPUs of swaptions-GC", time("s"), time("CPUs"))
        .with("Caladan", Form::Steps, caladan.line(|window| window.cpus[1]))
        .with("Parties*", Form::Steps, parties.line(|window| window.cpus[1]));
    let second = |phases: &Phases, by: f64| by * phases.be_throughput() / WINDOW.as_secs_f64();
    let throughput = Chart::new(
        "Figure 5: swaptions-GC",
        time("s"),
        Axis::new("instructions a second", Scale::Linear, Unit::PerSecond),
    )
    .with("Caladan", Form::Line, caladan.line(|window| window.instructions[1] / WINDOW.as_secs_f64()))
    .with("Parties*", Form::Line, parties.line(|window| window.instructions[1] / WINDOW.as_secs_f64()))
    .mark(Mark::AtY { y: second(&caladan, 1.0), label: "Caladan's mean".into() })
    .mark(Mark::AtY { y: second(&caladan, 0.95), label: "5 % less (paper, Parties*'s mean)".into() });
    Ok(Figure { measures, blocks: vec![Block::Chart(tails), Block::Chart(cores), Block::Chart(throughput)] })
}

/// Figure 1: CPUs are divided once and for all.
pub fn figure1(trial: Trial) -> Result<Figure> {
    let baseline = || AnyPolicy::None(NoPolicy::new(NoConfig::default()));
    let millis = Nanos::from_millis;
    let alone = Span { seed: trial.seed, warm_up: millis(100), measured: millis(if trial.quick { 150 } else { 500 }) };
    // "memcached is given enough cores to keep its 99.9th percentile tail latency below 50 μs when run in isolation": whole
    // cores, so that no hyperthread is shared.
    let mut calm = None;
    for cpus in (2..=20).step_by(2) {
        let workloads = static_partition(RATE, cpus, None);
        let p999 = run(Means::Sets, &workloads, &mut baseline(), alone)?.p999(0);
        if p999 < ALONE {
            calm = Some((cpus, p999));
            break;
        }
    }
    let (cpus, calm) = calm.context("no partition keeps the tail below 50 µs")?;
    let span =
        Span { seed: trial.seed, warm_up: millis(1_000), measured: millis(if trial.quick { 1_000 } else { 6_000 }) };
    let seen = Phases::new(windows(
        Means::Sets,
        &static_partition(RATE, cpus, Some(Be::SwaptionsGc)),
        &mut baseline(),
        span,
        WINDOW,
    )?);
    let service = static_rate(cpus, trial, false)?;
    let serviced = static_rate(cpus, trial, true)?;
    let note = format!(
        "memcached has {cpus} of 22 CPUs: alone {}, worst 20 ms beside the collector {}; it can answer {:.2} M/s beside the \
         program, {:.2} M/s beside its collector",
        micros(calm.0 as f64 / 1e3),
        micros(seen.worst()),
        service / 1e6,
        serviced / 1e6
    );
    let at_its_limit = format!(
        "10 µs · (1 − what it can answer / what is asked); asked for all that it can answer while calm: {:.2} µs",
        10.0 * (1.0 - serviced / service)
    );
    let measures = vec![
        measure("fig1.rate", serviced / service, note)?,
        measure("fig1.growth", 10.0 * (1.0 - serviced / RATE).max(0.0), at_its_limit)?,
        measure("fig1.tail", seen.worst() * 1e3 / calm.0 as f64, "")?,
        measure(
            "fig1.bandwidth",
            seen.windows.iter().map(|window| window.bandwidth).fold(0.0, f64::max) / THRESH_BW,
            "",
        )?,
    ];
    let time = |label: &str| Axis::new(label, Scale::Linear, Unit::Plain);
    let tails = Chart::new(
        "Figure 1: CPUs divided for good",
        time("s"),
        Axis::new("p99.9 over 20 ms", Scale::Log, Unit::Nanoseconds),
    )
    .with("memcached", Form::Line, seen.tails())
    .mark(Mark::AtY { y: ALONE.0 as f64, label: "50 µs: kept alone (paper)".into() })
    .mark(Mark::AtY { y: 1e3 * calm.0 as f64, label: "1,000 times that alone (paper)".into() });
    let bandwidth = Chart::new("Figure 1: memory bandwidth", time("s"), time("GB/s"))
        .with("all", Form::Steps, seen.line(|window| window.bandwidth / 1e9))
        .mark(Mark::AtY { y: 33.0, label: "all that memory has (assumed)".into() });
    Ok(Figure { measures, blocks: vec![Block::Chart(bandwidth), Block::Chart(tails)] })
}

/// Memcached's highest rate on this many CPUs beside the program, or beside its collector that never ends.
fn static_rate(cpus: u32, trial: Trial, collecting: bool) -> Result<f64> {
    let mut workloads = static_partition(6.0 * RATE, cpus, Some(Be::SwaptionsGc));
    if let Some(batch) = &mut workloads[1].batch {
        batch.cycle.swap(0, usize::from(collecting));
        batch.cycle.truncate(1);
        batch.cycle[0].work = None;
        batch.cycle[0].lasts = Some(Nanos::from_secs(1_000));
    }
    let measured = Nanos::from_millis(if trial.quick { 50 } else { 200 });
    let span = Span { seed: trial.seed, warm_up: Nanos::from_millis(150), measured };
    let baseline = &mut AnyPolicy::None(NoPolicy::new(NoConfig::default()));
    Ok(run(Means::Sets, &workloads, baseline, span)?.rate(0))
}

/// Table 1: Caladan's reaction time when a collection begins, and the time until memory is no longer saturated. A
/// collection begins anywhere between two rounds, at another point with each seed.
pub fn table1(trial: Trial) -> Result<Figure> {
    let (first, calm) = reacts(trial.seed)?;
    let micros = |time: Nanos| time.0 as f64 / 1e3;
    let measures = vec![
        measure("table1.reaction", micros(first), "")?,
        measure("table1.convergence", micros(calm), "until memory bandwidth is below THRESH_BW")?,
    ];
    Ok(Figure { measures, blocks: Vec::new() })
}

/// Time from the beginning of a collection to the first revoked core, and to unsaturated memory.
fn reacts(seed: u64) -> Result<(Nanos, Nanos)> {
    let cell = Cell::new(CALADAN, Lc::Memcached, RATE, Be::SwaptionsGc);
    let mut policy = cell.policy();
    let (mut first, mut calm) = (None, None);
    reaction(CALADAN.means(), &cell.workloads(), &mut policy, seed, |since, view, layer| {
        let revokes = layer.plan.grants.iter().any(|grant| matches!(grant, GrantCommand::Revoke(_)));
        if revokes && first.is_none() {
            first = Some(since);
        }
        let used = view.machine.memory_bandwidth.usable().map_or(0.0, |used| used.0);
        let sampled = layer.events.iter().any(|event| matches!(event, Event::SamplesReady));
        if first.is_some() && !sampled && used < THRESH_BW && calm.is_none() {
            calm = Some(since);
        }
        calm.is_some()
    })?;
    Ok((first.context("Caladan did nothing about the collector")?, calm.context("memory stayed saturated")?))
}
