use super::super::model::{self, Order, Then};
use super::*;
use crate::commands::sample::{measured, status, workload};
use quell_agent::api::wire::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub fn screen(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| render(frame, model)).unwrap();
    terminal.backend().to_string()
}

fn press(model: &mut Model, code: KeyCode) -> Then {
    model.press(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn the_view_of_a_small_terminal() {
    let model = Model::new(status(4));
    insta::assert_snapshot!(screen(&model, 80, 24));
}

#[test]
fn the_help_explains_the_columns() {
    let mut model = Model::new(status(4));
    press(&mut model, KeyCode::Char('?'));
    insta::assert_snapshot!(screen(&model, 80, 24));
}

#[test]
fn nothing_breaks_at_any_size() {
    for cpus in [0, 1, 64, 1024] {
        let model = Model::new(status(cpus));
        for (width, height) in [(1, 1), (10, 3), (20, 8), (80, 24), (300, 100)] {
            screen(&model, width, height);
        }
    }
    let text = screen(&Model::new(status(1024)), 80, 24);
    assert!(text.contains("more CPUs") && text.contains("runs only on idle CPUs"), "{text}");
}

#[test]
fn an_agent_that_goes_away_is_said_and_its_last_status_stays() {
    let mut model = Model::new(status(4));
    model.take(Err("no agent answers on /run/quell/api.sock".into()));
    let text = screen(&model, 80, 24);
    assert!(text.contains("no agent answers") && text.contains("batch"), "{text}");
    let mut next = status(4);
    next.now_ns += 2_000_000_000;
    next.agent.cpu_seconds += 0.04;
    model.take(Ok(next));
    let text = screen(&model, 80, 24);
    assert!(!text.contains("no agent answers") && text.contains("agent 2.0 % CPU"), "{text}");
}

#[test]
fn a_scheduler_that_is_off_is_said_first() {
    let mut status = status(4);
    status.agent.degraded = Some("Quell's scheduler is off: a stall".into());
    assert!(screen(&Model::new(status), 80, 24).contains("Quell's scheduler is off: a stall"));
}

#[test]
fn keys_choose_sort_and_quit() {
    let mut model = Model::new(status(4));
    let names = |model: &Model| model.workloads().iter().map(|w| w.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&model), ["db", "batch"], "latency-critical first");
    press(&mut model, KeyCode::Char('s'));
    assert_eq!((model.order, names(&model)), (Order::Cpu, vec!["batch".to_owned(), "db".to_owned()]));
    press(&mut model, KeyCode::Char('s'));
    assert_eq!((model.order, names(&model)[0].as_str()), (Order::Slo, "db"));
    press(&mut model, KeyCode::Down);
    assert_eq!(model.chosen_name(), Some("db"));
    press(&mut model, KeyCode::Enter);
    let only: Vec<&str> = model.decisions().map(|decision| decision.text.as_str()).collect();
    assert_eq!(only, ["the plan's knobs were refused"]);
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Down);
    assert_eq!(model.chosen_name(), Some("batch"), "the last one stays chosen");
    assert_eq!(press(&mut model, KeyCode::Esc), Then::Draw);
    assert_eq!(model.decisions().count(), 3);
    assert_eq!(press(&mut model, KeyCode::Esc), Then::Draw, "nothing is chosen any more");
    assert_eq!(press(&mut model, KeyCode::Esc), Then::Quit);
    assert_eq!(press(&mut model, KeyCode::Char('q')), Then::Quit);
    model.status.workloads.clear();
    press(&mut model, KeyCode::Up);
}

#[test]
fn a_workload_that_waits_is_listed_and_a_history_follows_the_looks() {
    let mut next = status(4);
    next.configured = vec![Configured {
        name: "web".into(),
        class: Class::Lc,
        cpus_requested: 1.0,
        state: State::Waiting,
        since_ns: 0,
        threads: None,
        selectors: vec!["systemd unit web.service".into()],
        why: None,
        leased_by: None,
        latency: None,
        departed: Vec::new(),
        overridden: None,
        remarks: vec![],
    }];
    let mut model = Model::new(next.clone());
    model.take(Ok(next));
    let web = model.workloads().into_iter().find(|workload| workload.name == "web").expect("it is listed");
    assert_eq!((web.cpus_used, web.cpus_requested), (None, 1.0));
    assert_eq!(model.name(web), "web (waiting)");
    assert_eq!(model.histories["db"].cpus_used, [0.5, 0.5]);
    assert_eq!(model.histories["db"].slo_ratio, [1.5, 1.5]);
    assert_eq!(model.histories["web"], model::History::default());
}

#[test]
fn a_missed_slo_is_marked() {
    let text = screen(&Model::new(status(4)), 100, 24);
    assert!(text.contains("! 1.50 ms/1.00 ms"), "{text}");
}

fn type_in(model: &mut Model, text: &str) {
    for letter in text.chars() {
        press(model, KeyCode::Char(letter));
    }
}

#[test]
fn a_filter_is_typed_shown_and_cleared() {
    let mut model = Model::new(status(4));
    let names = |model: &Model| model.workloads().iter().map(|w| w.name.clone()).collect::<Vec<_>>();
    press(&mut model, KeyCode::Char('/'));
    type_in(&mut model, "qd");
    assert!(names(&model).is_empty(), "q is a letter now");
    press(&mut model, KeyCode::Backspace);
    press(&mut model, KeyCode::Backspace);
    type_in(&mut model, "db");
    press(&mut model, KeyCode::Enter);
    assert_eq!(names(&model), ["db"]);
    let text = screen(&model, 80, 24);
    assert!(text.contains("/db  by class") && !text.contains("\"batch"), "{text}");
    assert_eq!(press(&mut model, KeyCode::Esc), Then::Draw);
    assert_eq!(names(&model).len(), 2);
}

#[test]
fn the_place_in_a_long_list_is_shown() {
    let mut next = status(2);
    next.workloads = (0..40).map(|number| workload(&format!("w{number:02}"), Class::Be, 0.0, 1.0)).collect();
    let mut model = Model::new(next);
    assert!(screen(&model, 80, 24).contains("1–"), "from the first");
    for _ in 0..40 {
        press(&mut model, KeyCode::Down);
    }
    let text = screen(&model, 80, 24);
    assert!(text.contains("–40 of 40") && text.contains("\"w39") && !text.contains("\"w00"), "{text}");
}

#[test]
fn a_wide_terminal_shows_history_slo_and_demotions() {
    let mut next = status(4);
    next.workloads[1].demotions = 3;
    next.workloads[1].budgets_exhausted = 7;
    let mut model = Model::new(next.clone());
    next.workloads[1].cpus_used = measured(2.0);
    model.take(Ok(next));
    let text = screen(&model, 200, 50);
    assert!(
        text.contains("▂█") && text.contains("██████████ 150 %") && text.contains("3 ×") && text.contains("7 ×"),
        "{text}"
    );
    insta::assert_snapshot!(text);
}

#[test]
fn what_another_program_changed_is_said_above_the_table() {
    let mut status = status(4);
    status.configured = vec![Configured {
        overridden: Some(quell_agent::api::wire::Overridden {
            threads: 5,
            of: 5,
            since_ns: 0,
            differences: vec!["5 threads: SCHED_OTHER nice 0 instead of SCHED_FIFO 1".into()],
            then: "Quell leaves them so".into(),
        }),
        ..crate::commands::sample::configured("db")
    }];
    let text = screen(&Model::new(status), 120, 24);
    assert!(text.contains("! db: another process changed what Quell set: 5 threads"), "{text}");
}

/// A status a second for two minutes; batch takes more and more from db, until its SLO is missed.
pub fn two_minutes() -> Model {
    let at = |second: u32| {
        let mut next = status(4);
        next.now_ns = u64::from(second) * 1_000_000_000 + 10_000_000_000;
        let part = f64::from(second) / 120.0;
        next.workloads[0].cpus_used = measured(0.5 + 2.0 * part);
        next.workloads[1].cpus_used = measured(1.5 - part);
        next.workloads[1].threads_waiting = measured(part);
        next.workloads[1].measured =
            Measurements::default().with(quell_model::Signal::Latency, measured(2e5 + 1.3e6 * part * part));
        next
    };
    let mut model = Model::new(at(0));
    (1..=120).for_each(|second| model.take(Ok(at(second))));
    model
}

#[test]
fn a_course_of_two_minutes_fills_terminals_of_four_sizes() {
    let model = two_minutes();
    for (width, height) in [(80, 24), (120, 40), (160, 50), (200, 60)] {
        let text = screen(&model, width, height);
        insta::assert_snapshot!(format!("course_{width}x{height}"), text);
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("\"! db misses its SLO, ") && first.contains("`quell why db`"), "{first}");
        assert!(text.contains("latency  db 1.50 ms") && text.contains("2 min ago"), "{text}");
        assert!(text.contains("4 CPUs by holder") && text.contains("▓ batch 2.50"), "{text}");
        assert!(text.contains("db: 1.00 threads wait") && text.contains("quell gap"), "{text}");
    }
    assert!(screen(&model, 200, 60).contains("threads waiting for a CPU  db 1.00"));
}

#[test]
fn holders_of_cpus_change_from_left_to_right() {
    let text = screen(&two_minutes(), 120, 40);
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("▓▓▓▓▓▓▓▓")).collect();
    let of = |half: fn(&str) -> String| rows.iter().map(|row| half(row).matches('▓').count()).sum::<usize>();
    let left = of(|row| row.chars().skip(62).take(28).collect());
    let right = of(|row| row.chars().skip(90).collect());
    assert!(right > left + 20, "batch gets more: {left}, {right}\n{text}");
}

#[test]
fn courses_begin_with_what_the_agent_saw_at_its_decisions() {
    let mut next = status(4);
    next.decisions[1].observed =
        Observed { latency_ns: Some(700_000), threads_waiting: Some(0.5), ..Observed::default() };
    let model = Model::new(next);
    let db = &model.histories["db"];
    assert_eq!(db.latency.points(), [(8_500_000_000, 7e5), (10_000_000_000, 1.5e6)]);
    assert_eq!(db.waiting.points(), [(8_500_000_000, 0.5), (10_000_000_000, 0.25)]);
}

#[test]
fn nothing_wrong_is_the_first_line_too() {
    let mut next = status(4);
    next.workloads[1].slo_met = Some(true);
    let text = screen(&Model::new(next), 80, 24);
    assert!(text.starts_with("\"the only workload with an SLO meets it"), "{text}");
}
