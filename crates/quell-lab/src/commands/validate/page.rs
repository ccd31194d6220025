//! The page with both distributions of each scene.

use quell_evidence::Cell as Found;
use quell_report::chart::{Chart, latency_chart};
use quell_report::page::{Block, Cell, Page, Row as Line};
use quell_report::stats::Histogram;

use super::compare::Row;
use super::table;

/// A scene, and what both sides found.
pub struct Scene {
    pub name: String,
    pub title: String,
    /// The version of the real kernel.
    pub kernel: String,
    pub rows: Vec<Row>,
    /// Latencies of workloads that have some.
    pub pairs: Vec<Pair>,
}

/// Latencies of a workload under a treatment, all seeds together.
pub struct Pair {
    name: String,
    simulated: Histogram,
    /// To a twentieth; none, if what is kept has none.
    real: Histogram,
}

/// The pairs of a scene, from each seed's cells on both sides.
pub fn pairs(simulated: &[Vec<Found>], real: &[Vec<Found>]) -> Vec<Pair> {
    let first = simulated.first().map_or(&[][..], Vec::as_slice);
    let several = first.iter().any(|cell| cell.policy != first[0].policy);
    let pair = |cell: &Found| {
        let all = |runs: &[Vec<Found>]| {
            let is = |other: &&Found| (&other.policy, &other.workload) == (&cell.policy, &cell.workload);
            let mut all = Histogram::default();
            let cells = runs.iter().flatten().filter(is).flat_map(|cell| &cell.latencies);
            cells.for_each(|&(ns, count)| all.record_many(ns, count));
            all
        };
        let name = match several {
            true => format!("{}: {}", cell.policy, cell.workload),
            false => cell.workload.clone(),
        };
        Pair { name, simulated: all(simulated), real: all(real) }
    };
    first.iter().map(pair).filter(|pair| pair.simulated.count() > 0).collect()
}

/// The whole page.
pub fn of(scenes: &[Scene]) -> Page {
    let rows: Vec<&Row> = scenes.iter().flat_map(|scene| &scene.rows).collect();
    Page {
        title: "The simulated kernel against a real one".into(),
        subtitle: table::summary(&rows),
        blocks: scenes.iter().flat_map(blocks).collect(),
    }
}

fn blocks(scene: &Scene) -> Vec<Block> {
    let mut blocks = vec![
        Block::Heading(scene.name.clone()),
        Block::Text(format!("{}. The real kernel is {}.", scene.title, scene.kernel)),
    ];
    blocks.extend(scene.pairs.iter().map(|pair| Block::Chart(chart(pair))));
    if scene.pairs.iter().any(|pair| pair.real.count() == 0) {
        let note = "What is kept of the real kernel has no distribution: it was kept by an older version of Quell.";
        blocks.push(Block::Notes(vec![note.into()]));
    }
    let line = |row: &Row| {
        let [_, rest @ ..] = table::cells(row);
        Line { colour: None, cells: rest.into_iter().map(Cell::from).collect() }
    };
    let [_, head @ ..] = table::HEAD;
    let head = head.map(str::to_owned).to_vec();
    blocks.push(Block::Table { head, rows: scene.rows.iter().map(line).collect() });
    blocks
}

fn chart(pair: &Pair) -> Chart {
    let sides = [("simulated", 0, &pair.simulated), ("real", 1, &pair.real)];
    let chart = latency_chart(sides.into_iter().filter(|(_, _, histogram)| histogram.count() > 0));
    Chart { title: pair.name.clone(), ..chart }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_distributions_of_a_workload_are_in_one_chart() {
        let cell = |workload: &str, latencies: &[(u64, u64)]| Found {
            policy: "none".into(),
            workload: workload.into(),
            latencies: latencies.to_vec(),
            ..Found::default()
        };
        let simulated = [vec![cell("web", &[(100, 2)]), cell("spins", &[])], vec![cell("web", &[(300, 1)])]];
        let real = [vec![cell("web", &[(110, 3)])]];
        let pairs = pairs(&simulated, &real);
        assert_eq!(pairs.len(), 1, "work without end has none");
        assert_eq!((pairs[0].simulated.count(), pairs[0].real.count()), (3, 3));
        let scene = |pairs| Scene {
            name: "small".into(),
            title: "a web server".into(),
            kernel: "6.18.15".into(),
            rows: Vec::new(),
            pairs,
        };
        let html = of(&[scene(pairs)]).to_html();
        assert!(html.contains("simulated") && html.contains("6.18.15"), "{html}");
        let kept_without = super::pairs(&simulated, &[vec![cell("web", &[])]]);
        assert!(of(&[scene(kept_without)]).to_html().contains("no distribution"));
    }
}
