//! The outcomes as tables, for the terminal and for the page.

use quell_model::{Nanos, NoteKind};
use quell_report::human;
use quell_report::page::Cell;
use quell_report::screen::Screen;
use quell_report::table::table;
use quell_sim::scenario::{CounterReport, Remark, WorkloadReport, label};

use super::compare::Outcome;
use super::plan::Plan;
use quell_report::table::NOTHING;

/// A table whose cells may have a second line. Each row knows its outcome's number.
pub struct Sheet {
    pub head: Vec<String>,
    pub rows: Vec<(usize, Vec<Cell>)>,
}

const WORKLOADS: [&str; 18] = [
    "policy", "workload", "class", "done/s", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max", "over SLO",
    "CPUs got", "asked", "waiting", "IPC", "LLC hits", "GB/s",
];

/// A row for each workload under each policy.
pub fn workloads(outcomes: &[Outcome]) -> Sheet {
    let rows = outcomes.iter().enumerate().flat_map(|(number, outcome)| {
        let with_workload = move |workload| {
            (number, [vec![outcome.report.policy.clone().into()], swept(outcome), row(workload)].concat())
        };
        outcome.report.workloads.iter().map(with_workload)
    });
    Sheet { head: head(&WORKLOADS, outcomes), rows: rows.collect() }.without_empty_columns()
}

/// Left out first where there is no room.
const LEAST: [&str; 16] = [
    "max",
    "p99.99",
    "mean",
    "waiting",
    "p90",
    "IPC",
    "LLC hits",
    "GB/s",
    "p99.9",
    "asked",
    "p50",
    "class",
    "commands",
    "migrations",
    "switches",
    "refused",
];

const MACHINES: [&str; 8] =
    ["policy", "CPUs busy", "GB/s", "switches", "migrations", "commands", "refused", "decision time"];

/// A row for each policy: the machine's counters, and the policy's cost.
pub fn machines(outcomes: &[Outcome]) -> Sheet {
    let rows = outcomes.iter().enumerate().map(|(number, outcome)| {
        let report = &outcome.report;
        let per_second = |count: u64| human::rate(count as f64 / report.measured.as_secs_f64());
        let cells = [
            human::percent(report.utilisation),
            report.memory_bandwidth.map_or(NOTHING.to_owned(), gigabytes),
            per_second(report.switches),
            per_second(report.migrations),
            report.commands.to_string(),
            report.refused.to_string(),
            human::nanoseconds(report.decision_time.0),
        ];
        (number, [vec![report.policy.clone().into()], swept(outcome), cells.map(Cell::from).to_vec()].concat())
    });
    Sheet { head: head(&MACHINES, outcomes), rows: rows.collect() }.without_empty_columns()
}

/// The policy's column first, then those of the swept keys: their last words, if that is enough to distinguish them.
fn head(columns: &[&str], outcomes: &[Outcome]) -> Vec<String> {
    let keys: Vec<&str> = outcomes.iter().take(1).flat_map(|o| o.point.iter().map(|(key, _)| key.as_str())).collect();
    let last = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
    let is_alone = |word: &str| keys.iter().filter(|key| last(key) == word).count() == 1 && !columns.contains(&word);
    let short = |key: &str| if is_alone(&last(key)) { last(key) } else { key.to_owned() };
    let swept = keys.iter().map(|key| short(key)).collect::<Vec<_>>();
    let (policy, others) = columns.split_at(1);
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    owned(policy).into_iter().chain(swept).chain(owned(others)).collect()
}

fn swept(outcome: &Outcome) -> Vec<Cell> {
    outcome.point.iter().map(|(_, value)| label(value).into()).collect()
}

fn row(workload: &WorkloadReport) -> Vec<Cell> {
    let time = |time: Option<Nanos>| time.map_or(NOTHING.to_owned(), |time| human::nanoseconds(time.0));
    let [p50, p90, p99, p999, p9999] = workload.quantiles();
    let intervals = workload.intervals.unwrap_or_default();
    let with_interval = |quantile: Option<Nanos>, interval: Option<(Nanos, Nanos)>| match interval {
        Some((low, high)) if quantile.is_some() => Cell::with_note(time(quantile), human::range(low.0, high.0)),
        _ => time(quantile).into(),
    };
    let has_requests = workload.completed > 0;
    let counted = |text: &dyn Fn(&CounterReport) -> String| {
        Cell::from(workload.counters.as_ref().filter(|counters| counters.ipc > 0.0).map_or(NOTHING.to_owned(), text))
    };
    vec![
        workload.name.clone().into(),
        workload.class.to_string().into(),
        if has_requests { human::rate(workload.throughput) } else { NOTHING.to_owned() }.into(),
        time(workload.mean).into(),
        time(p50).into(),
        time(p90).into(),
        with_interval(p99, intervals.p99),
        with_interval(p999, intervals.p999),
        time(p9999).into(),
        time(workload.max).into(),
        workload.slo_violations.filter(|_| has_requests).map_or(NOTHING.to_owned(), human::percent).into(),
        format!("{:.2}", workload.cpus_got).into(),
        format!("{:.2}", workload.cpus_requested).into(),
        format!("{:.2}", workload.threads_waiting).into(),
        counted(&|counters| format!("{:.2}", counters.ipc)),
        counted(&|counters| human::percent(counters.llc_hit_ratio)),
        counted(&|counters| gigabytes(counters.memory_bandwidth)),
    ]
}

fn gigabytes(bytes_per_second: f64) -> String {
    format!("{:.2}", bytes_per_second / 1e9)
}

impl Sheet {
    /// Without some of its columns.
    pub fn without(mut self, names: &[&str]) -> Sheet {
        while let Some(column) = self.head.iter().position(|head| names.contains(&head.as_str())) {
            self.head.remove(column);
            self.rows.iter_mut().for_each(|(_, cells)| drop(cells.remove(column)));
        }
        self
    }

    /// The rows with a value in this column; all if there is no such column.
    pub fn with_something_in(mut self, name: &str) -> Sheet {
        if let Some(column) = self.head.iter().position(|head| head == name) {
            self.rows.retain(|(_, cells)| cells[column].text != NOTHING);
        }
        self
    }

    /// Leaves out columns without a value, such as a p99.99 for which no workload has done enough.
    fn without_empty_columns(self) -> Sheet {
        let is_empty = |column: usize| self.rows.iter().all(|(_, cells)| cells[column].text == NOTHING);
        let empty: Vec<String> =
            (0..self.head.len()).filter(|&at| is_empty(at)).map(|at| self.head[at].clone()).collect();
        self.without(&empty.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn text(&self, screen: &Screen) -> String {
        let cell = |cell: &Cell| match &cell.note {
            Some(note) => format!("{} ({note})", cell.text),
            None => cell.text.clone(),
        };
        table(&self.head, self.rows.iter().map(|(_, cells)| cells.iter().map(cell))).least(LEAST).fit(screen)
    }
}

/// Both tables, deadlines missed, and the set-up.
pub fn text(plan: &Plan, outcomes: &[Outcome], screen: &Screen) -> String {
    let mut text = format!("{}\n\n{}", workloads(outcomes).text(screen), machines(outcomes).text(screen));
    for line in missed(outcomes).into_iter().chain(said(outcomes)) {
        text += &format!("\n{}", screen.wrap(&line));
    }
    text += &format!("\n\n{}", screen.wrap(&what(plan)));
    text
}

/// Deadlines that were missed, if any were.
pub fn missed(outcomes: &[Outcome]) -> Vec<String> {
    let missed = |outcome: &Outcome| outcome.report.workloads.iter().map(|workload| workload.missed_deadlines).sum();
    let counts = outcomes.iter().map(|outcome| (outcome.name(), missed(outcome)));
    counts
        .filter(|&(_, count): &(_, u64)| count > 0)
        .map(|(name, count)| format!("{name}: {count} deadlines missed"))
        .collect()
}

/// Of one kind, a policy's remarks that are shown.
const SHOWN: usize = 3;

/// The policies' remarks: refusals and warnings first, then reasons of decisions.
pub fn said(outcomes: &[Outcome]) -> Vec<String> {
    outcomes.iter().flat_map(said_by).collect()
}

fn said_by(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    let mut hidden = 0;
    for (kind, word) in [(NoteKind::Refused, "refuses: "), (NoteKind::Warning, "warns: "), (NoteKind::Because, "")] {
        let of_kind: Vec<&Remark> = outcome.remarks.iter().filter(|remark| remark.kind == kind).collect();
        hidden += of_kind.len().saturating_sub(SHOWN);
        lines.extend(of_kind.into_iter().take(SHOWN).map(|remark| {
            let about = remark.workload.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
            let times = if remark.times > 1 { format!(" ({} times)", remark.times) } else { String::new() };
            format!("{} {word}{about}{}{times}", outcome.name(), remark.text)
        }));
    }
    if hidden > 0 {
        lines.push(format!("{} says {hidden} more: --json", outcome.name()));
    }
    lines
}

/// Summary of the runs: title, times, repetitions, seed.
pub fn what(plan: &Plan) -> String {
    let scenario = plan.scenario();
    let runs = scenario.repetitions;
    let (s, of) = if runs == 1 { ("", "its blocks of time") } else { ("s", "the repetitions") };
    let title = if scenario.title.is_empty() { String::new() } else { format!("{}: ", scenario.title) };
    let swept = plan.sweep.axes().iter().map(|axis| format!("; {} values of {}", axis.values.len(), axis.key));
    format!(
        "{title}{} simulated after {}, {runs} run{s} a policy, seed {}{}; in brackets: 95 % intervals from {of}",
        scenario.duration,
        scenario.warm_up,
        scenario.seed,
        swept.collect::<String>()
    )
}
