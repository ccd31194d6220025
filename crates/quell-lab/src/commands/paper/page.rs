//! The rows as a page: our values beside the claimed ones, as numbers and as a picture.

use quell_evidence::{Row, Verdict};
use quell_report::chart::{Axis, Chart, Form, Mark, Scale, Unit};
use quell_report::page::{Block, Cell, Page, Row as Line};

/// The page, with further pictures.
pub fn of(rows: &[Row], pictures: Vec<Block>) -> Page {
    let head = ["claim", "claimed", "ours", "ratio", "verdict"].map(str::to_owned).to_vec();
    let number = |value: Option<f64>| value.map_or("–".to_owned(), super::table::number);
    let line = |row: &Row| {
        let source = &row.claim.source;
        let said = format!("{} [{}, {}]", row.claim.statement, source.text, source.place);
        let cells = vec![
            Cell::with_note(row.claim.id.clone(), said),
            super::table::claimed(row.claim).into(),
            Cell::with_note(number(row.ours), row.note.clone()),
            number(row.ratio()).into(),
            row.verdict.to_string().into(),
        ];
        Line { colour: None, cells }
    };
    let lines = rows.iter().map(line);
    Page {
        title: "What Quell claims, and what came out".into(),
        subtitle: "quell-lab paper, on this machine".into(),
        blocks: std::iter::once(Block::Chart(values(rows)))
            .chain(pictures)
            .chain([Block::Table { head, rows: lines.collect() }])
            .collect(),
    }
}

/// Our values as multiples of the claimed ones, by row and verdict. A bound has no such multiple.
fn values(rows: &[Row]) -> Chart {
    let place = |index: usize| index as f64 + 1.0;
    let x = Axis::new("row of the table", Scale::Linear, Unit::Plain).between(0.0, place(rows.len()));
    let chart = Chart::new("Ours over what is claimed", x, Axis::new("ratio", Scale::Log, Unit::Plain))
        .mark(Mark::AtY { y: 1.0, label: "as claimed".into() });
    [Verdict::Reproduced, Verdict::Shape, Verdict::Differs].into_iter().fold(chart, |chart, verdict| {
        let of = |(_, row): &(usize, &Row)| row.verdict == verdict;
        let points = rows.iter().enumerate().filter(of).filter_map(|(index, row)| Some((place(index), row.ratio()?)));
        let points: Vec<(f64, f64)> = points.filter(|(_, ratio)| *ratio > 0.0).collect();
        if points.is_empty() { chart } else { chart.with(verdict.to_string(), Form::Points, points) }
    })
}
