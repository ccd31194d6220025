//! The rows as a page: ours beside what is claimed, as numbers and as a picture.

use quell_bench::chart::{Axis, Chart, Form, Mark, Scale, Unit};
use quell_bench::report::{Block, Cell, Page, Row as Line};
use quell_evidence::Row;

/// The page.
pub fn of(rows: &[Row]) -> Page {
    let head = ["claim", "claimed", "ours", "ratio", "verdict"].map(str::to_owned).to_vec();
    let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
    let lines = rows.iter().map(|row| Line {
        colour: None,
        cells: vec![
            Cell::with_note(row.claim.id, row.claim.statement),
            Cell::with_note(super::claimed(row), format!("{}, {}", row.claim.source.text, row.claim.source.place)),
            Cell::with_note(number(row.ours), row.note.clone()),
            number(row.ratio()).into(),
            row.verdict.to_string().into(),
        ],
    });
    Page {
        title: "What Quell claims, and what came out".into(),
        subtitle: "quell reproduce, on this machine".into(),
        blocks: vec![Block::Chart(values(rows)), Block::Table { head, rows: lines.collect() }],
    }
}

/// Our values by row, and around each the claimed one.
fn values(rows: &[Row]) -> Chart {
    let place = |index: usize| index as f64 + 1.0;
    let points = rows.iter().enumerate().filter_map(|(index, row)| Some((place(index), row.ours?))).collect();
    let x = Axis::new("row of the table", Scale::Linear, Unit::Plain).between(0.0, place(rows.len()));
    let chart = Chart::new(
        "Ours (dots) and what is claimed (rings)",
        x,
        Axis::new("value", Scale::Linear, Unit::Plain),
    )
    .with("ours", Form::Points, points);
    rows.iter().enumerate().fold(chart, |chart, (index, row)| {
        chart.mark(Mark::Point { x: place(index), y: row.claim.expected.value(), label: row.claim.id.into() })
    })
}
