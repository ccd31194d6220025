//! Drawing the view: a function of the model alone.

use quell_agent::api::wire::{CpuState, DecisionKind};
use quell_report::human;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::model::Model;
use super::{headline, panel, workloads};
use crate::commands::{cells, why};

pub const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
pub const FAINT: Style = Style::new().fg(Color::DarkGray);
pub const GOOD: Style = Style::new().fg(Color::Green);
pub const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
/// The chosen row.
pub const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
/// Columns of one CPU in the grid, its number included.
const CPU_CELL: u16 = 16;
/// Decisions that are always visible, if there are any.
const DECISIONS: u16 = 6;
/// Workloads that wait and are listed, at most.
const WAITS: u16 = 5;

/// Draws the whole view.
pub fn render(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    let rows = model.workloads().len() as u16 + 1;
    let (notice, decided, mut waits) = (notice_line(model), cells::decisions(&model.status), panel::waits(model));
    let (notice_room, decided_room) = (u16::from(notice.is_some()), u16::from(decided.is_some()));
    let fixed = 2 + notice_room + 1 + decided_room + 1 + 1; // headline, title, CPUs' head, decisions' head, keys
    let room = area.height.saturating_sub(fixed);
    let cpu_room = cpu_rows(model, area.width).min(room / 3);
    let most = DECISIONS.max(room / 5).min(room / 3);
    let lines = decision_lines(model, most);
    let wrapped = |line: &Line<'_>| line.width().div_ceil(usize::from(area.width.max(1))).max(1);
    let decisions = (lines.iter().map(wrapped).sum::<usize>() as u16).min(most);
    waits.truncate(usize::from((room / 8).min(WAITS)));
    let waits_room = if waits.is_empty() { 0 } else { waits.len() as u16 + 1 };
    let workload_room = rows.min(room.saturating_sub(decisions + cpu_room + waits_room));
    let left = room.saturating_sub(decisions + cpu_room + waits_room + workload_room);
    let panel_room = if left >= panel::LEAST { left } else { 0 };
    let list = if panel_room == 0 { Constraint::Min(decisions) } else { Constraint::Length(decisions) };
    let [
        first,
        title,
        notice_at,
        table,
        waits_at,
        pictures,
        cpu_head,
        cpu_grid,
        scheduler,
        decision_head,
        decided_at,
        keys,
    ] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(notice_room),
        Constraint::Length(workload_room),
        Constraint::Length(waits_room),
        Constraint::Length(panel_room),
        Constraint::Length(1),
        Constraint::Length(cpu_room),
        Constraint::Length(decided_room),
        Constraint::Length(1),
        list,
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(headline::line(model), first);
    frame.render_widget(title_line(model), title);
    frame.render_widget(notice.unwrap_or_default(), notice_at);
    let place = workloads::draw(frame, model, table);
    if waits_room > 0 {
        let lines = std::iter::once(panel::waits_title()).chain(waits);
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), waits_at);
    }
    if panel_room > 0 {
        panel::draw(frame, model, pictures);
    }
    frame.render_widget(Line::styled("CPUs", HEAD), cpu_head);
    frame.render_widget(Paragraph::new(cpu_lines(model, cpu_grid)), cpu_grid);
    frame.render_widget(Line::raw(decided.unwrap_or_default()), scheduler);
    frame.render_widget(Line::styled(decision_title(model), HEAD), decision_head);
    let lines = if panel_room == 0 { decision_lines(model, decided_at.height) } else { lines };
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), decided_at);
    frame.render_widget(key_line(model, place), keys);
    if model.help {
        help(frame, area);
    }
}

fn title_line(model: &Model) -> Line<'static> {
    let status = &model.status;
    let policies = status.layers.iter().map(|layer| layer.policy.as_str()).collect::<Vec<_>>().join(" + ");
    let cpus = model.agent_cpus.map_or(String::new(), |cpus| format!("{} CPU, ", human::percent(cpus)));
    Line::from(vec![
        Span::styled(if model.paused { "paused, p resumes  " } else { "" }, BAD),
        Span::styled(format!("quell top  {policies}"), HEAD),
        Span::raw(format!(
            "  {} on {}, {} CPUs  agent {cpus}{}  turn {}",
            status.agent.mode,
            status.agent.host,
            status.cpus.len(),
            human::bytes(status.agent.resident_bytes),
            status.turns,
        )),
    ])
}

/// What is worth a line below the title: decisions that are missing, what the policies do less well here.
fn notice_line(model: &Model) -> Option<Line<'static>> {
    let agent = &model.status.agent;
    let lost = model.status.decisions_lost;
    if lost > 0 {
        return Some(Line::styled(
            format!("{lost} decisions were lost: they came faster than they could be read"),
            FAINT,
        ));
    }
    agent.limits.first().map(|limit| {
        let more = agent.limits.len() - 1;
        let more = if more == 0 { String::new() } else { format!(" (and {more} more: quell status)") };
        Line::styled(format!("limit: {limit}{more}"), FAINT)
    })
}

fn cpu_columns(width: u16) -> u16 {
    (width / CPU_CELL).max(1)
}

fn cpu_rows(model: &Model, width: u16) -> u16 {
    (model.status.cpus.len() as u16).div_ceil(cpu_columns(width))
}

/// The CPUs as a grid, in as many lines as fit; the last line has the number of hidden ones.
fn cpu_lines(model: &Model, area: Rect) -> Vec<Line<'static>> {
    let columns = usize::from(cpu_columns(area.width));
    let cpus = &model.status.cpus;
    let all: Vec<Line<'static>> = cpus
        .chunks(columns)
        .map(|row| {
            Line::from_iter(row.iter().map(|cpu| {
                let (text, style) = match (&cpu.workload, cpu.state) {
                    (_, CpuState::Offline) => ("offline", FAINT),
                    (_, CpuState::Isolated) => ("isolated", FAINT),
                    (_, CpuState::Banned) => ("parked", FAINT),
                    (Some(name), CpuState::Idle) => (name.as_str(), FAINT),
                    (Some(name), _) => (name.as_str(), Style::new()),
                    (None, CpuState::RealTime) => ("real-time", FAINT),
                    (None, CpuState::Idle) => ("idle", FAINT),
                    (None, _) => (cells::NOTHING, FAINT),
                };
                let room = usize::from(CPU_CELL) - 5;
                let short: String = text.chars().take(room).collect();
                Span::styled(format!("{:>3} {short:<room$} ", cpu.cpu), style)
            }))
        })
        .collect();
    let room = usize::from(area.height);
    if all.len() <= room {
        return all;
    }
    let shown = room.saturating_sub(1);
    let mut lines: Vec<Line<'static>> = all.into_iter().take(shown).collect();
    lines.push(Line::styled(format!("… and {} more CPUs", cpus.len() - shown * columns), FAINT));
    lines
}

fn decision_title(model: &Model) -> String {
    match (model.only_chosen, model.chosen_name()) {
        (true, Some(name)) => format!("Last decisions about {name} (all of them: quell why)"),
        _ => "Last decisions".to_owned(),
    }
}

fn decision_lines(model: &Model, room: u16) -> Vec<Line<'static>> {
    let lines: Vec<Line<'static>> = model
        .decisions()
        .take(usize::from(room))
        .map(|decision| {
            let style = match decision.kind {
                DecisionKind::Refused => BAD,
                DecisionKind::Warning => Style::new().fg(Color::Yellow),
                _ => Style::new(),
            };
            let about = decision.workload.as_ref().map_or(String::new(), |name| format!("{name}: "));
            Line::from(vec![
                Span::styled(format!("{:>8} ago ", why::ago(model.status.now_ns, decision)), FAINT),
                Span::styled(format!("{} ", decision.policy), FAINT),
                Span::styled(format!("{about}{}", why::sentence(decision)), style),
            ])
        })
        .collect();
    if lines.is_empty() { vec![Line::styled("  none yet", FAINT)] } else { lines }
}

fn key_line(model: &Model, place: Option<String>) -> Line<'static> {
    if let Some(typed) = &model.typing {
        return Line::styled(format!("/{typed}▏  names that contain it   Enter keeps   Esc shows all"), HEAD);
    }
    let keys = "q quit  ↑↓ choose  Enter decisions  / filter  s order  p pause  ? help";
    let place = place.map_or(String::new(), |place| format!("  {place}"));
    let filter = if model.filter.is_empty() { String::new() } else { format!("  /{}", model.filter) };
    // Changing parts come first: a narrow screen cuts the keys.
    match place.is_empty() && filter.is_empty() {
        true => Line::styled(format!("{keys} (by {})", model.order.name()), FAINT),
        false => Line::from(vec![
            Span::styled(format!("{}{}", filter.trim_start(), place), HEAD),
            Span::styled(format!("  by {}  {keys}", model.order.name()), FAINT),
        ]),
    }
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let text = "granted    CPUs granted to the workload, or that its threads are kept on\n\
                used/req   CPUs that it used over the last second, of those it requested\n\
                waiting    threads runnable without running, on average\n\
                queueing   age of its oldest waiting item\n\
                latency    at its SLO's quantile, and the bound; red: above it\n\
                ~ estimated, ? stale, – not measured\n\n\
                q quit   ↑ ↓ choose a workload   Enter only its decisions   Esc back\n\
                s order by class, CPU or SLO     / names that contain a text\n\
                p stop and go on                 ? close this";
    let [_, middle, _] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(12), Constraint::Fill(1)]).areas(area);
    let [_, middle, _] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Max(76), Constraint::Fill(1)]).areas(middle);
    frame.render_widget(Clear, middle);
    let block = Block::bordered().title(" quell top ");
    frame.render_widget(Paragraph::new(text).block(block).wrap(Wrap { trim: false }), middle);
}

#[cfg(test)]
#[path = "tests.rs"]
pub mod tests;
