//! What was measured in a figure's scene: all of it, beside the few values that its claims are about.

use quell_evidence::{Cell, Figure};
use quell_report::page::{Block, Row};
use quell_report::screen::Screen;
use quell_report::table::table;

use crate::commands::paper::table::number;

/// A value's name, and what a cell has of it.
type Column = (&'static str, fn(&Cell) -> Option<f64>);

const COLUMNS: [Column; 7] = [
    ("p50 µs", |cell| cell.p50),
    ("p99 µs", |cell| cell.p99),
    ("p99.9 µs", |cell| cell.p999),
    ("longest pause µs", |cell| cell.pause),
    ("done/s", |cell| Some(cell.rate)),
    ("CPUs", |cell| Some(cell.cpus)),
    ("sent late p99 µs", |cell| cell.late),
];

/// A table: a line a workload and treatment, of each value the mean of the seeds and their range. Values that no cell has are left
/// out.
pub struct Seen {
    title: String,
    head: Vec<&'static str>,
    lines: Vec<Vec<String>>,
}

impl Seen {
    /// Of these runs, one a seed.
    pub fn of(figure: &Figure, runs: &[Vec<Cell>]) -> Seen {
        let has = |(_, value): &Column| runs.iter().flatten().any(|cell| value(cell).is_some_and(|value| value != 0.0));
        let columns: Vec<Column> = COLUMNS.into_iter().filter(has).collect();
        let line = |one: &Cell| {
            let is_like = |cell: &&Cell| cell.policy == one.policy && cell.workload == one.workload;
            let alike = || runs.iter().flatten().filter(is_like);
            let values = columns.iter().map(|(_, value)| spread(&alike().filter_map(value).collect::<Vec<f64>>()));
            [one.workload.clone(), one.policy.clone()].into_iter().chain(values).collect()
        };
        let mut cells: Vec<&Cell> = runs.first().into_iter().flatten().collect();
        // Stable: workloads are in the scene's order, and beside each other what is compared.
        let order: Vec<String> = cells.iter().map(|cell| cell.workload.clone()).collect();
        cells.sort_by_key(|cell| order.iter().position(|name| *name == cell.workload));
        let head = ["workload", "treatment"].into_iter().chain(columns.iter().map(|(name, _)| *name)).collect();
        Seen { title: figure.topic.title.clone(), head, lines: cells.into_iter().map(line).collect() }
    }

    /// For people.
    pub fn text(&self, screen: &Screen) -> String {
        let table = table(self.head.clone(), self.lines.clone()).least(["CPUs", "sent late p99 µs"]);
        format!("\n{}:\n{}\n", self.title, table.fit(screen))
    }

    /// For a page.
    pub fn block(&self) -> Block {
        let row = |cells: &Vec<String>| Row { colour: None, cells: cells.iter().cloned().map(Into::into).collect() };
        let head = self.head.iter().map(|name| (*name).to_owned()).collect();
        Block::Table { head, rows: self.lines.iter().map(row).collect() }
    }
}

fn spread(values: &[f64]) -> String {
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(least, most), v| (least.min(*v), most.max(*v)));
    match values.len() {
        0 => "–".to_owned(),
        1 => number(least),
        count => format!("{} ({}–{})", number(values.iter().sum::<f64>() / count as f64), number(least), number(most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn treatments_of_a_workload_are_beside_each_other() {
        let cell = |workload: &str, policy: &str, p99| Cell {
            policy: policy.into(),
            workload: workload.into(),
            p99,
            ..Cell::default()
        };
        let run =
            |p99| vec![cell("web", "none", Some(p99)), cell("batch", "none", None), cell("web", "guard", Some(p99))];
        let text = include_str!("../../../../../../papers/edgeiso/real-services.toml");
        let seen = Seen::of(&Figure::read(text).unwrap(), &[run(10.0), run(30.0)]);
        let lines: Vec<String> = seen.lines.iter().map(|line| line.join(" ")).collect();
        assert_eq!(seen.head, ["workload", "treatment", "p99 µs"]);
        assert_eq!(lines, ["web none 20.0 (10.0–30.0)", "web guard 20.0 (10.0–30.0)", "batch none –"]);
        assert!(seen.text(&Screen::UNBOUNDED).contains("memcacheds"));
    }
}
