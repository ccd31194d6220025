//! Drawing the view: a function of the model alone.

use quell_agent::api::wire::{CpuState, DecisionKind};
use quell_report::human;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::model::Model;
use super::workloads;
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

/// Draws the whole view.
pub fn render(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    let rows = model.workloads().len() as u16 + 1;
    let cpus = cpu_rows(model, area.width);
    let decided = cells::decisions(&model.status);
    let decided_room = u16::from(decided.is_some());
    let fixed = 2 + 1 + 1 + decided_room; // title, blank or problem, CPUs' head, keys
    let room = area.height.saturating_sub(fixed + 1);
    let decisions = DECISIONS.min(room / 3);
    let cpu_room = cpus.min(room / 3);
    let workload_room = rows.min(room.saturating_sub(decisions + cpu_room));
    let [title, problem, table, cpu_head, cpu_grid, scheduler, decision_head, decision_list, keys] =
        Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(workload_room),
            Constraint::Length(1),
            Constraint::Length(cpu_room),
            Constraint::Length(decided_room),
            Constraint::Length(1),
            Constraint::Min(decisions),
            Constraint::Length(1),
        ])
        .areas(area);
    frame.render_widget(title_line(model), title);
    frame.render_widget(problem_line(model), problem);
    let place = workloads::draw(frame, model, table);
    frame.render_widget(Line::styled("CPUs", HEAD), cpu_head);
    frame.render_widget(Paragraph::new(cpu_lines(model, cpu_grid)), cpu_grid);
    frame.render_widget(Line::raw(decided.unwrap_or_default()), scheduler);
    frame.render_widget(Line::styled(decision_title(model), HEAD), decision_head);
    frame.render_widget(
        Paragraph::new(decision_lines(model, decision_list.height)).wrap(Wrap { trim: false }),
        decision_list,
    );
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

/// Trouble if there is any: the agent is gone, a record failed, decisions were lost.
fn problem_line(model: &Model) -> Line<'static> {
    if let Some(problem) = &model.problem {
        return Line::styled(format!("{problem}; trying again"), BAD);
    }
    let agent = &model.status.agent;
    if let Some(what) = &agent.starting {
        return Line::from(what.clone());
    }
    if let Some(why) = &agent.degraded {
        return Line::styled(why.clone(), BAD);
    }
    if let Some(line) = trouble(model) {
        return Line::styled(line, BAD);
    }
    if let Some(why) = agent.recording.as_ref().and_then(|recording| recording.failed.as_ref()) {
        return Line::styled(format!("the record ended: {why}"), BAD);
    }
    if model.paused {
        return Line::styled("stopped; p goes on", FAINT);
    }
    let lost = model.status.decisions_lost;
    if lost > 0 {
        return Line::styled(format!("{lost} decisions came faster than they could be read"), FAINT);
    }
    agent.limits.first().map_or(Line::default(), |limit| {
        let more = agent.limits.len() - 1;
        let more = if more == 0 { String::new() } else { format!(" (and {more} more: quell status)") };
        Line::styled(format!("! {limit}{more}"), FAINT)
    })
}

/// What does not stand as it was set: of the agent, else of the first workload that has some.
fn trouble(model: &Model) -> Option<String> {
    let status = &model.status;
    let refused = status.agent.not_reloaded.as_ref();
    let refused = refused.map(|_| "! the configuration in the files is refused: see `quell status`".to_owned());
    let of_workloads = status.configured.iter().flat_map(|configured| {
        let workload = status.workloads.iter().find(|workload| workload.name == configured.name);
        cells::remarks(configured, workload).into_iter().filter(|line| line.starts_with('!'))
    });
    let warnings = status.agent.warnings.iter().map(|warning| format!("! {warning}"));
    cells::exceptions(&status.agent, status.now_ns)
        .into_iter()
        .chain(refused)
        .chain(of_workloads)
        .chain(warnings)
        .next()
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
                let (text, style) = match (&cpu.runs, cpu.state) {
                    (_, CpuState::Offline) => ("offline", FAINT),
                    (_, CpuState::Isolated) => ("isolated", FAINT),
                    (_, CpuState::Banned) => ("parked", FAINT),
                    (Some(name), CpuState::Idle) => (name.as_str(), FAINT),
                    (Some(name), _) => (name.as_str(), Style::new()),
                    (None, CpuState::Away) => ("real-time", FAINT),
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
    let keys = "q quit  ↑↓ choose  Enter decisions  / filter  s order  p stop  ? help";
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
                got/asked  CPUs that it got over the last second, of those it requested\n\
                waiting    threads runnable without running, on average\n\
                queueing   age of its oldest waiting item\n\
                latency    at its SLO's quantile, and the bound; red: above it\n\
                ~ estimated, ? too old to act on, – not measured\n\n\
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
mod tests;
