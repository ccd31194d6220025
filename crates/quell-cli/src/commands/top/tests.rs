use super::super::model::{self, Order, Then};
use super::*;
use crate::commands::sample::{measured, status, workload};
use quell_agent::api::wire::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

fn screen(model: &Model, width: u16, height: u16) -> String {
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
        looks_for: vec!["systemd unit web.service".into()],
        why: None,
        leased_by: None,
        left: Vec::new(),
        overridden: None,
        remarks: vec![],
    }];
    let mut model = Model::new(next.clone());
    model.take(Ok(next));
    let web = model.workloads().into_iter().find(|workload| workload.name == "web").expect("it is listed");
    assert_eq!((web.cpus_got, web.cpus_requested), (None, 1.0));
    assert_eq!(model.name(web), "web (waiting)");
    assert_eq!(model.histories["db"].cpus_got, [0.5, 0.5]);
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
    assert!(text.contains("–40 of 40") && text.contains("w39") && !text.contains("w00"), "{text}");
}

#[test]
fn a_wide_terminal_shows_history_slo_and_demotions() {
    let mut next = status(4);
    next.workloads[1].demotions = 3;
    next.workloads[1].budgets_exhausted = 7;
    let mut model = Model::new(next.clone());
    next.workloads[1].cpus_got = measured(2.0);
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
    assert!(text.contains("! db: another program changed what Quell set: 5 threads"), "{text}");
}
