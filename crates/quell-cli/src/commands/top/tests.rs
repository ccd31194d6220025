use super::super::model::{Order, Then};
use super::*;
use quell_agent::api::wire::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

fn measured(value: f64) -> Option<Measured> {
    Some(Measured { value, age_ns: 0, window_ns: 0, quality: Quality::Exact })
}

fn workload(name: &str, class: Class, asked: f64, got: f64) -> Workload {
    Workload {
        name: name.into(),
        class,
        policies: vec!["guard".into()],
        cpus_requested: asked,
        cpus_limit: None,
        cpus_got: measured(got),
        cpus_granted: None,
        cpus_granted_count: None,
        threads: measured(3.0),
        queueing_delay_ns: None,
        unread_delay_ns: None,
        threads_waiting: measured(0.25),
        latency_ns: None,
        slo: None,
        slo_kept: None,
        memory_bandwidth: None,
        knobs: vec![],
    }
}

fn decision(workload: Option<&str>, kind: DecisionKind, text: &str, at_ns: u64) -> Decision {
    Decision {
        at_ns,
        times: 1,
        since_ns: at_ns,
        policy: "guard".into(),
        plan: 1,
        workload: workload.map(str::to_owned),
        kind,
        text: text.into(),
        seen: Seen::default(),
    }
}

fn status(cpus: u32) -> Status {
    let db = Workload {
        latency_ns: measured(1.5e6),
        slo: Some(Slo { quantile: 0.99, bound_ns: 1_000_000 }),
        slo_kept: Some(false),
        cpus_granted: Some("0-1".into()),
        queueing_delay_ns: Some(Measured { value: 12e3, age_ns: 0, window_ns: 0, quality: Quality::Estimated }),
        ..workload("db", Class::Lc, 2.0, 0.5)
    };
    let runs = |cpu| match cpu % 4 {
        0 => (CpuState::Busy, Some("db".to_owned())),
        1 => (CpuState::Busy, Some("batch".to_owned())),
        2 => (CpuState::Idle, None),
        _ => (CpuState::Unknown, None),
    };
    Status {
        agent: Agent {
            version: "0.1.0".into(),
            pid: 1,
            mode: "run".into(),
            host: "linux".into(),
            limits: vec!["guard: knob 'idle-only': no permission".into()],
            cpu_seconds: 1.0,
            resident_bytes: 12 << 20,
            recording: None,
        },
        now_ns: 10_000_000_000,
        turns: 42,
        layers: vec![Layer {
            policy: "guard".into(),
            workloads: None,
            pool: "0-3".into(),
            steps: 42,
            knobs: 2,
            grants: 0,
            others: 0,
            refused: 0,
        }],
        workloads: vec![workload("batch", Class::Be, 0.0, 2.75), db],
        cpus: (0..cpus)
            .map(|cpu| {
                let (state, runs) = runs(cpu);
                Cpu { cpu, core: cpu, state, runs }
            })
            .collect(),
        memory_bandwidth: None,
        memory_slowdown: None,
        decisions: vec![
            decision(Some("batch"), DecisionKind::Knob, "runs only on idle CPUs", 9_000_000_000),
            decision(Some("db"), DecisionKind::Refused, "the plan's knobs were refused", 8_500_000_000),
            decision(None, DecisionKind::Warning, "something to mend", 1_000_000_000),
        ],
        decisions_lost: 0,
    }
}

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
