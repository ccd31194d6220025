//! The demo's results: plain data, the figures drawn from it, and the table.

use quell_bench::antagonist::AntagonistReport;
use quell_bench::load::{LoadReport, QUANTILES};
use quell_report::bars::{Bar, log_bars};
use quell_report::human;
use quell_report::page::Cell;
use quell_report::screen::Screen;
use quell_report::table::table;
use serde::{Deserialize, Serialize};

use super::baseline::is_sound;
use super::scene::Phase;

/// One phase, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The load generator's report.
    pub load: LoadReport,
    /// The antagonist's report; absent where none ran.
    pub antagonist: Option<AntagonistReport>,
    /// Was the load generator kept off the CPUs that the server had for itself?
    #[serde(default)]
    pub generator_kept_off: bool,
    /// CPUs that other programs used meanwhile; absent where that cannot be read.
    #[serde(default)]
    pub others_cpus: Option<f64>,
    /// The largest share of the load's time in which one of the server's threads waited for a CPU; absent where the kernel does
    /// not count that.
    #[serde(default)]
    pub server_waited: Option<f64>,
    /// Quell's decisions as text, with the time since the phase began in seconds.
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
    /// What it is, in one line.
    #[serde(default)]
    pub means: String,
    /// One entry a repetition; none where it was left out.
    pub runs: Vec<Run>,
    /// The reason why it did not run.
    #[serde(default)]
    pub left_out: Option<String>,
}

/// The whole demo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DemoReport {
    /// Quell's version.
    pub version: String,
    /// CPUs, kernel, threads of server and antagonist, rate: one line each.
    pub machine: Vec<String>,
    /// The number of CPUs.
    #[serde(default)]
    pub cpus: u32,
    /// Were idle CPUs kept awake?
    #[serde(default)]
    pub awake: bool,
    /// Other programs' work before the first phase, where the machine was not quiet.
    #[serde(default)]
    pub busy: Option<String>,
    /// Why no phase is compared with the server alone; null: they are.
    #[serde(default)]
    pub no_ratios: Option<String>,
    /// The neighbours.
    pub neighbours: String,
    /// All phases, also those that did not run.
    pub phases: Vec<PhaseResult>,
    /// Phases that did not run, and why.
    pub skipped: Vec<String>,
    /// The result in words.
    pub result: String,
}

impl PhaseResult {
    /// A phase that has not run yet, or will not.
    pub fn new(phase: &Phase, left_out: Option<String>) -> PhaseResult {
        let [name, title, means] = [phase.name, phase.title, phase.means].map(str::to_owned);
        PhaseResult { name, title, means, runs: Vec::new(), left_out }
    }

    /// The runs in which the server answered at all.
    fn answered(&self) -> impl Iterator<Item = &Run> + Clone {
        self.runs.iter().filter(|run| run.load.counts.answered > 0)
    }

    /// The median over the runs of a quantile of latency, ns; none without an answer.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        median(self.answered().map(|run| run.load.latency.at(q)))
    }

    /// The generator's own lateness at p99, ns, median over the runs.
    pub fn lateness_ns(&self) -> u64 {
        median(self.runs.iter().map(|run| run.load.lateness.at(0.99))).unwrap_or(0)
    }

    /// The largest share of the time in which one of the server's threads waited for a CPU, median over the runs.
    pub fn waited(&self) -> Option<f64> {
        median_f64(self.runs.iter().filter_map(|run| run.server_waited))
    }

    /// The antagonist's work per second, median over the runs.
    pub fn antagonist_per_s(&self) -> Option<f64> {
        let per_s: Option<Vec<f64>> = self.runs.iter().map(Run::antagonist_per_s).collect();
        per_s.and_then(|work| median_f64(work.into_iter()))
    }

    /// The cells of its row, under [`HEADS`].
    pub fn row(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::from(self.title.as_str())];
        if self.runs.is_empty() {
            cells[0].text += ": skipped";
            cells.resize(HEADS.len(), Cell::from(NOTHING));
            return cells;
        }
        for (index, q) in QUANTILES.iter().enumerate().filter(|(_, q)| **q != 0.9) {
            if !self.answered().all(|run| is_sound(&run.load, *q)) {
                cells.push(Cell::from(NOTHING));
                continue;
            }
            let interval = match &self.runs[..] {
                [only] => only.load.latency.quantiles[index].interval_ns,
                _ => {
                    let all = self.answered().map(|run| run.load.latency.at(*q));
                    all.clone().min().zip(all.max())
                }
            };
            let value = self.quantile_ns(*q).map_or(NOTHING.into(), human::nanoseconds);
            cells.push(match interval {
                Some((low, high)) => Cell::with_note(value, human::range(low, high)),
                None => Cell::from(value),
            });
        }
        let served = median_f64(self.runs.iter().map(|run| run.load.served_per_s));
        cells.push(Cell::from(served.map_or(NOTHING.into(), human::rate)));
        cells.push(Cell::from(self.antagonist_per_s().map_or(NOTHING.into(), human::rate)));
        cells.push(Cell::from(human::nanoseconds(self.lateness_ns())));
        let stolen = median_f64(self.runs.iter().filter_map(|run| run.load.stolen));
        cells.push(Cell::from(stolen.map_or(NOTHING.into(), human::percent)));
        cells
    }
}

/// The advice of the generator's report, and the same for a user of the demo.
const WITH_REALTIME: &str = "Run it with --realtime";
const AS_ROOT: &str = "Run the demo as root";

/// Stands where nothing was measured.
const NOTHING: &str = "–";

/// The heads of the comparison's columns.
pub const HEADS: [&str; 8] = ["", "p50", "p99", "p99.9", "served", "antagonist", "own lateness p99", "stolen"];

impl DemoReport {
    /// A phase by its name.
    pub fn phase(&self, name: &str) -> Option<&PhaseResult> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    /// The p99 of the phases as bars; beside each the multiple of that alone, if there is something to compare with.
    pub fn bars(&self, screen: &Screen) -> String {
        let alone = self.baseline();
        let bar = |phase: &PhaseResult| {
            let ns = phase.quantile_ns(0.99).filter(|_| phase.runs.iter().all(|run| is_sound(&run.load, 0.99)))?;
            let mut text = human::nanoseconds(ns);
            if let (Ok(alone), true) = (&alone, phase.name != "alone" && phase.doubt().is_none()) {
                text += &format!("  {:.1} ×", ns as f64 / *alone as f64);
            }
            Some(Bar { label: phase.title.clone(), ns, text })
        };
        let bars: Vec<Bar> = self.phases.iter().filter_map(bar).collect();
        if bars.is_empty() {
            return String::new();
        }
        format!("p99 latency of memcached beside {}, shorter is better\n{}", self.neighbours, log_bars(&bars, screen))
    }

    /// What each phase is, one line each.
    pub fn meanings(&self) -> Vec<String> {
        self.phases.iter().map(|phase| format!("{}: {}", phase.title, phase.means)).collect()
    }

    /// The comparison.
    pub fn table(&self, screen: &Screen) -> String {
        let text = |cell: Cell| match cell.note {
            Some(note) => format!("{}\n{note}", cell.text),
            None => cell.text,
        };
        let rows = self.phases.iter().map(|phase| phase.row().into_iter().map(text).collect::<Vec<_>>());
        table(HEADS, rows).least(["stolen", "own lateness p99"]).fit(screen)
    }

    /// Phases that ran.
    pub fn measured(&self) -> impl Iterator<Item = &PhaseResult> {
        self.phases.iter().filter(|phase| !phase.runs.is_empty())
    }

    /// Doubts about the figures: remarks of the load generator, refusals of the host.
    pub fn caveats(&self) -> Vec<String> {
        let said = |phase: &PhaseResult| {
            let refused = |run: &Run| {
                let lines = run.decisions.iter().filter(|(_, text)| text.contains("the host refused"));
                lines.map(|(_, text)| text.clone()).take(1).collect::<Vec<_>>()
            };
            let lines = phase.runs.iter().flat_map(|run| [run.load.caveats(), refused(run)].concat());
            lines.map(|line| format!("{}: {}", phase.title, line.replace(WITH_REALTIME, AS_ROOT))).collect::<Vec<_>>()
        };
        let mut lines: Vec<String> = self.measured().flat_map(said).collect();
        lines.dedup();
        lines
    }
}

fn median<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    let middle = values.len() / 2;
    values.into_iter().nth(middle)
}

fn median_f64(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
