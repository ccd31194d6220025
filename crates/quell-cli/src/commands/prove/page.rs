//! `--html`: both distributions, and the blocks over time.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use quell_effect::Measure;
use quell_model::foreign;
use quell_report::chart::{Axis, Chart, Form, Scale, Unit, latency_chart};
use quell_report::page::{Block, Page, Row};
use quell_report::stats::Histogram;

use super::course::Course;
use super::output::rows;
use super::result::Outcome;

/// Refuses a file that could not be written at the end.
///
/// # Errors
/// With the fix.
pub fn check(file: &Path) -> Result<()> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if file.is_dir() || !parent.is_dir() {
        bail!("--html {}: it cannot be written there; give a file in a directory that exists", file.display());
    }
    Ok(())
}

/// Writes it.
///
/// # Errors
/// If it cannot be written.
pub fn write(file: &Path, course: &Course<'_>, outcome: &Outcome, headline: &str, remarks: &[String]) -> Result<()> {
    let html = page(course, outcome, headline, remarks).to_html();
    fs::write(file, html).with_context(|| format!("cannot write {}", file.display()))
}

fn page(course: &Course<'_>, outcome: &Outcome, headline: &str, remarks: &[String]) -> Page {
    let arms = course.plan.arms(course.arguments);
    let measured = match course.plan.measure {
        Measure::QueueingDelay => "queueing delay",
        Measure::Histogram | Measure::Probe => "latency",
    };
    let row = |cells: [String; 3]| Row { colour: None, cells: cells.into_iter().map(Into::into).collect() };
    let mut blocks = vec![Block::Text(course.plan.design.text())];
    let histograms = [false, true].map(|on| histogram(outcome, on));
    let named: Vec<_> = [(arms.off, 0), (arms.on, 1)]
        .into_iter()
        .zip(&histograms)
        .filter(|(_, histogram)| histogram.count() > 0)
        .map(|((name, colour), histogram)| (name, colour, histogram))
        .collect();
    if !named.is_empty() {
        let mut chart = latency_chart(named);
        chart.title = format!("Distribution of {measured}");
        measured.clone_into(&mut chart.x.label);
        blocks.push(Block::Chart(chart));
    }
    blocks.push(Block::Chart(over_time(course, outcome, measured)));
    blocks.push(Block::Table {
        head: ["", arms.off, arms.on].map(str::to_owned).to_vec(),
        rows: rows(course, outcome).into_iter().map(row).collect(),
    });
    blocks.push(Block::Notes(remarks.to_vec()));
    Page { title: headline.to_owned(), subtitle: subtitle(course), blocks }
}

fn subtitle(course: &Course<'_>) -> String {
    format!("quell prove {}, policy {}", foreign::text(&course.subject.words), course.plan.policy)
}

fn histogram(outcome: &Outcome, on: bool) -> Histogram {
    let mut histogram = Histogram::default();
    let phase = outcome.phase(on);
    let cells = phase.iter().flat_map(|phase| &phase.slices).flat_map(|slice| &slice.cells);
    cells.for_each(|(ns, count)| histogram.record_many(*ns, *count));
    histogram
}

/// A dot a block.
fn over_time(course: &Course<'_>, outcome: &Outcome, measured: &str) -> Chart {
    let arms = course.plan.arms(course.arguments);
    let name = quell_effect::quantile::name(outcome.found.quantile);
    let points = |on: bool| {
        let list = outcome.list();
        list.iter()
            .filter(|block| block.on == on)
            .filter_map(|block| Some((block.at_seconds, block.ns?.max(1) as f64)))
            .collect()
    };
    Chart::new(
        "Blocks over time",
        Axis::new("seconds since the beginning", Scale::Linear, Unit::Plain),
        Axis::new(format!("{measured}, {name} of each block"), Scale::Log, Unit::Nanoseconds),
    )
    .with(arms.off, Form::Points, points(false))
    .with(arms.on, Form::Points, points(true))
}
