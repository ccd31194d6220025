//! The table of workloads: its columns, those that the width has room for, and which of its rows are seen.

use quell_agent::api::wire::{Class, Workload};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Style};
use ratatui::symbols::bar;
use ratatui::text::Span;
use ratatui::widgets::{Cell, Row, Table, TableState};
use unicode_width::UnicodeWidthStr;

use super::model::Model;
use super::render::{BAD, CHOSEN, FAINT, GOOD, HEAD};
use crate::commands::{cells, waits};

/// A column right of the name.
struct Column {
    head: &'static str,
    /// Columns of the screen that it takes at least.
    width: usize,
    /// On a narrow screen the column with the lowest rank is dropped first.
    rank: u8,
    cell: fn(&Model, &Workload) -> (String, Style),
}

/// Looks of the history that are drawn.
const LOOKS: usize = 16;
/// Cells of an SLO's bar.
const BAR: usize = 10;
/// A name has at least so much room before columns are left out for it, and no column is left out for more.
const NAME: (usize, usize) = (13, 32);

const COLUMNS: [Column; 12] = [
    Column { head: "", width: 2, rank: 9, cell: class },
    Column { head: "policy", width: 8, rank: 3, cell: |_, it| (it.policies.join("+"), Style::new()) },
    Column { head: "granted", width: 8, rank: 4, cell: |_, it| (cells::granted(it), Style::new()) },
    Column { head: "used/req", width: 10, rank: 8, cell: |_, it| (cells::got(it), Style::new()) },
    Column { head: "CPUs, over time", width: 19, rank: 1, cell: history },
    Column { head: "waiting", width: 7, rank: 5, cell: |_, it| (cells::waiting(it), Style::new()) },
    Column { head: "waits for", width: 16, rank: 1, cell: |_, it| (waits::largest(it), Style::new()) },
    Column { head: "queueing", width: 8, rank: 6, cell: |_, it| (cells::queueing(it), Style::new()) },
    Column { head: "latency/SLO", width: 17, rank: 7, cell: |_, it| (cells::latency(it), kept(it)) },
    Column { head: "of SLO", width: BAR + 6, rank: 2, cell: slo_bar },
    Column { head: "demoted", width: 7, rank: 0, cell: demoted },
    Column { head: "over budget", width: 11, rank: 0, cell: over_budget },
];

/// Draws the table; returns which rows are seen, if not all are: `3–12 of 40`.
pub fn draw(frame: &mut Frame<'_>, model: &Model, area: Rect) -> Option<String> {
    let workloads = model.workloads();
    let longest = workloads.iter().map(|workload| model.name(workload).width()).max().unwrap_or(0);
    let columns = fitting(longest, usize::from(area.width));
    let rows = workloads.iter().map(|workload| {
        let others = columns.iter().map(|column| {
            let (text, style) = (column.cell)(model, workload);
            Cell::from(Span::styled(text, style))
        });
        Row::new(std::iter::once(Cell::from(model.name(workload))).chain(others))
    });
    let head = std::iter::once("workload").chain(columns.iter().map(|column| column.head));
    let widths = columns.iter().map(|column| Constraint::Length(column.width as u16));
    let table = Table::new(rows, std::iter::once(Constraint::Fill(1)).chain(widths))
        .header(Row::new(head).style(HEAD))
        .column_spacing(1)
        .row_highlight_style(CHOSEN);
    let mut state = TableState::new().with_selected(model.chosen());
    frame.render_stateful_widget(table, area, &mut state);
    let (all, seen, first) = (workloads.len(), usize::from(area.height.saturating_sub(1)), state.offset());
    (seen < all).then(|| format!("{}–{} of {all}", (first + 1).min(all), (first + seen).min(all)))
}

/// The columns that fit beside names of this length.
fn fitting(longest: usize, width: usize) -> Vec<&'static Column> {
    let name = longest.clamp(NAME.0, NAME.1);
    let mut columns: Vec<&Column> = COLUMNS.iter().collect();
    let needed = |columns: &[&Column]| name + columns.iter().map(|column| column.width + 1).sum::<usize>();
    while needed(&columns) > width
        && let Some(least) = (0..columns.len()).min_by_key(|&at| columns[at].rank)
    {
        columns.remove(least);
    }
    columns
}

fn class(_: &Model, workload: &Workload) -> (String, Style) {
    let style = match workload.class {
        Class::Lc => Style::new().fg(Color::Cyan),
        Class::Be => FAINT,
    };
    (cells::class(workload.class).to_owned(), style)
}

fn kept(workload: &Workload) -> Style {
    match workload.slo_met {
        Some(true) => GOOD,
        Some(false) => BAD,
        None => Style::new(),
    }
}

/// The CPUs that it got at the last looks, as bars between none and the most of them.
fn history(model: &Model, workload: &Workload) -> (String, Style) {
    let Some(history) = model.histories.get(&workload.name) else { return (String::new(), FAINT) };
    let most = history.cpus_used.iter().copied().fold(workload.cpus_requested, f64::max);
    let levels = [
        bar::NINE_LEVELS.empty,
        bar::NINE_LEVELS.one_eighth,
        bar::NINE_LEVELS.one_quarter,
        bar::NINE_LEVELS.three_eighths,
        bar::NINE_LEVELS.half,
        bar::NINE_LEVELS.five_eighths,
        bar::NINE_LEVELS.three_quarters,
        bar::NINE_LEVELS.seven_eighths,
        bar::NINE_LEVELS.full,
    ];
    let level = |got: &f64| if most > 0.0 { (got / most * 8.0).round() as usize } else { 0 };
    let last = history.cpus_used.iter().skip(history.cpus_used.len().saturating_sub(LOOKS));
    (last.map(|got| levels[level(got).min(8)]).collect(), Style::new())
}

/// Used part of the SLO's latency.
fn slo_bar(_: &Model, workload: &Workload) -> (String, Style) {
    let Some(ratio) = workload.slo_ratio else { return (String::new(), FAINT) };
    let full = (ratio.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let percent = format!("{:.0} %", (100.0 * ratio).min(9999.0));
    (format!("{}{} {percent}", "█".repeat(full), "░".repeat(BAR - full)), kept(workload))
}

fn demoted(_: &Model, workload: &Workload) -> (String, Style) {
    match workload.demotions {
        0 => (String::new(), FAINT),
        times => (format!("{times} ×"), Style::new().fg(Color::Yellow)),
    }
}

/// Periods in which a server's budget was used up.
fn over_budget(_: &Model, workload: &Workload) -> (String, Style) {
    match workload.budgets_exhausted {
        0 => (String::new(), FAINT),
        times => (format!("{times} ×"), BAD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_screen_keeps_names_and_what_counts_most() {
        let heads = |longest, width| fitting(longest, width).iter().map(|column| column.head).collect::<Vec<_>>();
        assert_eq!(heads(10, 200).len(), COLUMNS.len());
        assert_eq!(
            heads(10, 80),
            ["", "policy", "granted", "used/req", "waiting", "queueing", "latency/SLO"],
            "the small terminal"
        );
        assert_eq!(heads(30, 80), ["", "used/req", "waiting", "queueing", "latency/SLO"], "long names are kept");
        assert!(heads(500, 20).is_empty());
    }
}
