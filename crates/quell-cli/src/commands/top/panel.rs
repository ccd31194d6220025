//! What a larger terminal has room for: the course of latency and waiting, CPUs by holder, and what takes from whom.

use quell_agent::api::wire::{Class, Workload};
use quell_model::Signal;
use quell_report::human;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Paragraph};

use super::course::Course;
use super::model::{History, Model};
use super::render::{FAINT, HEAD};
use crate::commands::{cells, waits as waited};

/// Lines below which a panel says nothing.
pub const LEAST: u16 = 6;
/// Columns from which there are two, and three.
const TWO: u16 = 70;
const THREE: u16 = 150;
/// Workloads in one picture.
const SHOWN: usize = 6;
/// A smaller average of waiting threads is none.
const WAITS: f64 = 0.01;
const COLOURS: [Color; SHOWN] = [Color::Cyan, Color::Yellow, Color::Magenta, Color::Green, Color::Blue, Color::Red];
/// Holders of CPUs look different without colours, too.
const FILLS: [&str; SHOWN] = ["█", "▓", "▒", "░", "#", "+"];
const FREE: &str = "·";

/// Draws as many of the pictures as there is room for.
pub fn draw(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let latency =
        Picture { title: "latency", of: |history| &history.latency, text: |ns| human::nanoseconds(ns as u64) };
    let waiting = Picture {
        title: "threads waiting for a CPU",
        of: |history| &history.waiting,
        text: |value| format!("{value:.2}"),
    };
    let has_latency = model.histories.values().any(|history| !history.latency.points().is_empty());
    let first = if has_latency { &latency } else { &waiting };
    match area.width {
        THREE.. if has_latency => {
            let [left, middle, right] = columns(area);
            latency.draw(frame, model, left);
            waiting.draw(frame, model, middle);
            holders(frame, model, right);
        }
        TWO.. => {
            let [left, right] = columns(area);
            first.draw(frame, model, left);
            holders(frame, model, right);
        }
        _ => first.draw(frame, model, area),
    }
}

fn columns<const N: usize>(area: Rect) -> [Rect; N] {
    Layout::horizontal([Constraint::Fill(1); N]).spacing(2).areas(area)
}

/// One quantity of the workloads over time.
struct Picture {
    title: &'static str,
    of: fn(&History) -> &Course<f64>,
    text: fn(f64) -> String,
}

impl Picture {
    fn draw(&self, frame: &mut Frame<'_>, model: &Model, area: Rect) {
        let now = model.status.now_ns;
        // The chosen one alone, else the latency-critical ones.
        let is_shown = |workload: &&Workload| match model.chosen_name() {
            Some(chosen) => workload.name == chosen,
            None => workload.class == Class::Lc,
        };
        let workloads: Vec<&Workload> = model.workloads().into_iter().filter(is_shown).take(SHOWN).collect();
        let lines: Vec<(String, Vec<(f64, f64)>)> = workloads
            .into_iter()
            .filter_map(|workload| {
                let points = (self.of)(model.histories.get(&workload.name)?).points();
                let ago = |at: u64| -(now.saturating_sub(at) as f64 / 1e9);
                let points: Vec<_> = points.iter().map(|(at, value)| (ago(*at), *value)).collect();
                (!points.is_empty()).then(|| (workload.name.clone(), points))
            })
            .collect();
        let [head, below] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        let mut title = vec![Span::styled(self.title, HEAD)];
        for ((name, points), colour) in lines.iter().zip(COLOURS) {
            let last = points.last().map_or(String::new(), |(_, value)| (self.text)(*value));
            title.push(Span::styled(format!("  {name} {last}"), Style::new().fg(colour)));
        }
        frame.render_widget(Line::from(title), head);
        let all = || lines.iter().flat_map(|(_, points)| points);
        let most = all().map(|(_, value)| *value).fold(0.0, f64::max);
        if lines.is_empty() {
            frame.render_widget(Line::styled("not measured", FAINT), below);
            return;
        }
        let oldest = all().map(|(at, _)| *at).fold(-1.0, f64::min);
        let datasets = lines.iter().zip(COLOURS).map(|((_, points), colour)| {
            let style = Style::new().fg(colour);
            Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line).style(style).data(points)
        });
        let top = if most > 0.0 { 1.1 * most } else { 1.0 };
        let chart = Chart::new(datasets.collect())
            .x_axis(Axis::default().style(FAINT).bounds([oldest, 0.0]).labels([ago(oldest), "now".to_owned()]))
            .y_axis(Axis::default().style(FAINT).bounds([0.0, top]).labels(["0".to_owned(), (self.text)(top)]));
        frame.render_widget(chart, below);
    }
}

/// A time before now, in seconds below zero: `3 min ago`.
fn ago(seconds: f64) -> String {
    match -seconds {
        s if s < 120.0 => format!("{s:.0} s ago"),
        s if s < 7_200.0 => format!("{:.0} min ago", s / 60.0),
        s => format!("{:.0} h ago", s / 3_600.0),
    }
}

/// The CPUs that each workload got over time, one above the other; the rest is other programs' or idle.
fn holders(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let cpus = model.status.cpus.len() as f64;
    let got = |workload: &Workload| workload.cpus_used.map_or(0.0, |got| got.value);
    let mut shown: Vec<&Workload> =
        model.status.workloads.iter().filter(|workload| workload.cpus_used.is_some()).collect();
    shown.sort_by(|a, b| got(b).total_cmp(&got(a)).then_with(|| a.name.cmp(&b.name)));
    shown.truncate(SHOWN);
    // Latency-critical ones at the bottom.
    shown.sort_by_key(|workload| workload.class != Class::Lc);
    let [head, grid, legend] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    let title = format!("{cpus} CPUs by holder");
    let points = model.holders.points();
    let (Some((first, _)), Some((last, _))) = (points.first(), points.last()) else { return };
    let span = format!("  {} to now", ago(-(last.saturating_sub(*first) as f64 / 1e9)));
    frame.render_widget(Line::from(vec![Span::styled(title, HEAD), Span::styled(span, FAINT)]), head);
    let cell = |column: u16, row: u16| {
        let part = f64::from(column + 1) / f64::from(grid.width);
        let at = first + (last.saturating_sub(*first) as f64 * part) as u64;
        let height = (f64::from(grid.height - row) - 0.5) / f64::from(grid.height) * cpus;
        let by_name = model.holders.at(at);
        let mut below = 0.0;
        let place = shown.iter().position(|workload| {
            below += by_name.and_then(|of| of.get(&workload.name)).copied().unwrap_or(0.0);
            height < below
        });
        place.map_or(Span::styled(FREE, FAINT), |place| Span::styled(FILLS[place], Style::new().fg(COLOURS[place])))
    };
    let rows = (0..grid.height).map(|row| Line::from_iter((0..grid.width).map(|column| cell(column, row))));
    frame.render_widget(Paragraph::new(rows.collect::<Vec<_>>()), grid);
    let mut names = Vec::new();
    for (place, workload) in shown.iter().enumerate() {
        let style = Style::new().fg(COLOURS[place]);
        names.push(Span::styled(format!("{} {} {:.2}  ", FILLS[place], workload.name, got(workload)), style));
    }
    let rest = (cpus - shown.iter().map(|workload| got(workload)).sum::<f64>()).max(0.0);
    names.push(Span::styled(format!("{FREE} rest {rest:.2}"), FAINT));
    frame.render_widget(Line::from(names), legend);
}

/// What waits, and for what, the one that waits most first; where that is not known, which workloads have the CPUs meanwhile.
pub fn waits(model: &Model) -> Vec<Line<'static>> {
    let waiting = |workload: &Workload| workload.threads_waiting.map_or(0.0, |waiting| waiting.value);
    let got = |workload: &Workload| workload.cpus_used.map_or(0.0, |got| got.value);
    // What best-effort work waits for is what it is there for.
    let is_victim = |workload: &&Workload| workload.class == Class::Lc && waiting(workload) >= WAITS;
    let mut victims: Vec<&Workload> = model.workloads().into_iter().filter(is_victim).collect();
    victims.sort_by(|a, b| waiting(b).total_cmp(&waiting(a)));
    let line = |victim: &&Workload| {
        let mut beside: Vec<&Workload> = model.status.workloads.iter().filter(|of| of.name != victim.name).collect();
        beside.sort_by(|a, b| got(b).total_cmp(&got(a)));
        let beside = beside.into_iter().filter(|of| got(of) >= 0.05).take(3);
        let beside: Vec<String> = beside.map(|of| format!("{} {:.2} CPUs", of.name, got(of))).collect();
        let beside = if beside.is_empty() { "unmanaged programs".to_owned() } else { beside.join(", ") };
        let beside =
            waited::causes(victim).map_or(format!("meanwhile run {beside}"), |causes| format!("lately {causes}"));
        let oldest = match victim.measured.get(Signal::QueueingDelay) {
            Some(_) => format!(", the oldest item {}", cells::queueing(victim)),
            None => String::new(),
        };
        Line::from(vec![
            Span::styled(format!("  {}", victim.name), HEAD),
            Span::raw(format!(": {} threads wait{oldest}; {beside}", cells::waiting(victim))),
        ])
    };
    victims.iter().map(line).collect()
}

/// The head of that list.
pub fn waits_title() -> Line<'static> {
    Line::from(vec![
        Span::styled("What waits, and for what", HEAD),
        Span::styled("  since the agent found it: quell why NAME", FAINT),
    ])
}
