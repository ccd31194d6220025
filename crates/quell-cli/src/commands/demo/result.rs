//! What the demo measured: plain data, the figures drawn from it, and the table.

use quell_bench::antagonist::AntagonistReport;
use quell_bench::human;
use quell_bench::load::{LoadReport, QUANTILES};
use quell_bench::report::Cell;
use quell_bench::table::table;
use serde::{Deserialize, Serialize};

/// One phase, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// What the load generator saw.
    pub load: LoadReport,
    /// What the antagonist did; absent where none ran.
    pub antagonist: Option<AntagonistReport>,
    /// What Quell decided, as text, with the time since the phase began in seconds.
    pub decisions: Vec<(f64, String)>,
}

impl Run {
    /// Blocks that the antagonist did per second of the measured time.
    pub fn antagonist_per_s(&self) -> Option<f64> {
        let from = self.load.started_ns;
        self.antagonist.as_ref()?.blocks_per_s_between(from, from + self.load.measured_ns)
    }
}

/// One phase, all its runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhaseResult {
    /// Its name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// One entry a repetition.
    pub runs: Vec<Run>,
}

/// The whole demo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DemoReport {
    /// CPUs, kernel, threads of server and antagonist, rate: one line each.
    pub machine: Vec<String>,
    /// Phases that ran.
    pub phases: Vec<PhaseResult>,
    /// Phases that did not, and why.
    pub skipped: Vec<String>,
}

impl PhaseResult {
    /// A phase that has not run yet.
    pub fn empty(name: &str, title: &str) -> PhaseResult {
        PhaseResult { name: name.into(), title: title.into(), runs: Vec::new() }
    }

    /// The median over the runs of a quantile of latency, ns.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        median(self.runs.iter().map(|run| run.load.latency.at(q)))
    }

    /// The antagonist's work per second, median over the runs.
    pub fn antagonist_per_s(&self) -> Option<f64> {
        let per_s: Option<Vec<f64>> = self.runs.iter().map(Run::antagonist_per_s).collect();
        per_s.map(|work| median_f64(work.into_iter()))
    }

    /// The cells of its row, under [`HEADS`].
    pub fn row(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::from(self.title.as_str())];
        for (index, q) in QUANTILES.iter().enumerate().filter(|(_, q)| **q != 0.9) {
            let interval = match &self.runs[..] {
                [only] => only.load.latency.quantiles[index].interval_ns,
                runs => {
                    let all = runs.iter().map(|run| run.load.latency.at(*q));
                    all.clone().min().zip(all.max())
                }
            };
            let value = human::nanoseconds(self.quantile_ns(*q));
            cells.push(match interval {
                Some((low, high)) => Cell::with_note(value, human::range(low, high)),
                None => Cell::from(value),
            });
        }
        cells.push(Cell::from(human::rate(median_f64(self.runs.iter().map(|run| run.load.served_per_s)))));
        cells.push(Cell::from(self.antagonist_per_s().map_or("–".into(), human::rate)));
        cells.push(Cell::from(human::nanoseconds(median(self.runs.iter().map(|run| run.load.lateness.at(0.99))))));
        let stolen = self.runs.iter().filter_map(|run| run.load.stolen);
        cells.push(Cell::from(human::percent(median_f64(stolen))));
        cells
    }
}

/// The heads of the comparison's columns.
pub const HEADS: [&str; 8] = ["", "p50", "p99", "p99.9", "served", "antagonist", "own lateness p99", "stolen"];

impl DemoReport {
    /// A phase by its name.
    pub fn phase(&self, name: &str) -> Option<&PhaseResult> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    /// The comparison.
    pub fn table(&self) -> String {
        let text = |cell: Cell| match cell.note {
            Some(note) => format!("{}\n{note}", cell.text),
            None => cell.text,
        };
        let rows = self.phases.iter().map(|phase| phase.row().into_iter().map(text).collect::<Vec<_>>());
        table(HEADS, rows).to_string()
    }

    /// What makes figures doubtful, as the load generator saw it.
    pub fn caveats(&self) -> Vec<String> {
        let said = |phase: &PhaseResult| {
            let lines = phase.runs.iter().flat_map(|run| run.load.caveats());
            lines.map(|line| format!("{}: {line}", phase.title)).collect::<Vec<_>>()
        };
        let mut lines: Vec<String> = self.phases.iter().flat_map(said).collect();
        lines.dedup();
        lines
    }

    /// What the figures say, one sentence a line.
    pub fn findings(&self) -> Vec<String> {
        let p99 = |name: &str| self.phase(name).map(|phase| phase.quantile_ns(0.99));
        let work = |name: &str| self.phase(name).and_then(PhaseResult::antagonist_per_s);
        let mut lines = Vec::new();
        if let (Some(alone), Some(linux)) = (p99("alone"), p99("linux")) {
            lines.push(format!("plain Linux: p99 is {:.1}× the server's own", linux as f64 / alone as f64));
        }
        if let (Some(alone), Some(fifo), Some(guard)) = (p99("alone"), p99("fifo"), p99("guard")) {
            let limit = alone.max(fifo);
            let mut line =
                format!("guard: p99 is {:.2}× the larger of alone and SCHED_FIFO", guard as f64 / limit as f64);
            if let (Some(beside_fifo), Some(beside_guard)) = (work("fifo"), work("guard")) {
                let kept = beside_guard / beside_fifo;
                line += &format!("; the antagonist does {} of its work beside SCHED_FIFO", human::percent(kept));
            }
            lines.push(line);
        }
        if let (Some(best), Some(rkube)) = (p99("linux-best"), p99("rkube")) {
            let mut line = format!("rkube: p99 is {:.2}× that of Linux's best", rkube as f64 / best as f64);
            if let (Some(beside_best), Some(beside_rkube)) = (work("linux-best"), work("rkube")) {
                line += &format!(
                    "; the antagonist does {} of its work there, what the exclusive CPUs leave",
                    human::percent(beside_rkube / beside_best)
                );
            }
            lines.push(line);
        }
        lines
    }
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn median_f64(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
