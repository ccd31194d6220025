//! Writes a sample page, to look at: `cargo run -p quell-bench --example sample_report REPORT.json… > sample.html`,
//! where each file holds what `quell load --json` printed.

use std::error::Error;
use std::{env, fs};

use quell_bench::figures::latency_timeline;
use quell_bench::load::LoadReport;
use quell_report::chart::latency_chart;
use quell_report::human::{nanoseconds, range, rate};
use quell_report::page::{Block, Cell, Page, Row};

fn main() -> Result<(), Box<dyn Error>> {
    let mut runs: Vec<(String, LoadReport)> = Vec::new();
    for path in env::args().skip(1) {
        let report = serde_json::from_str(&fs::read_to_string(&path)?)?;
        let name = path.rsplit('/').next().unwrap_or(&path).trim_end_matches(".json");
        runs.push((name.to_owned(), report));
    }
    let named = || runs.iter().enumerate().map(|(colour, (name, report))| (name.as_str(), colour, report));
    let head = ["run", "p50", "p99", "p99.9", "served", "own lateness p99"];
    let rows = named().map(|(name, colour, report)| Row {
        colour: Some(colour),
        cells: [0, 2, 3]
            .map(|index| &report.latency.quantiles[index])
            .iter()
            .map(|quantile| match quantile.interval_ns {
                Some((low, high)) => Cell::with_note(nanoseconds(quantile.ns), range(low, high)),
                None => nanoseconds(quantile.ns).into(),
            })
            .fold(vec![Cell::from(name)], |mut cells, cell| {
                cells.push(cell);
                cells
            })
            .into_iter()
            .chain([rate(report.served_per_s).into(), nanoseconds(report.lateness.at(0.99)).into()])
            .collect(),
    });
    let page = Page {
        title: "Load on a memcached".into(),
        subtitle: "Several runs of `quell load`.".into(),
        blocks: vec![
            Block::Text("Latency counts from the time at which a request was to be sent.".into()),
            Block::Table { head: head.map(String::from).to_vec(), rows: rows.collect() },
            Block::Chart(latency_chart(named().map(|(name, colour, r)| (name, colour, &r.latency.histogram)))),
            Block::Chart(latency_timeline(named().map(|(name, colour, r)| (name, colour, r.timeline.as_slice())))),
            Block::Notes(runs.iter().flat_map(|(_, report)| report.caveats()).collect()),
        ],
    };
    println!("{}", page.to_html());
    Ok(())
}
