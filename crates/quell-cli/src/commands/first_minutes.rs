//! What a reader of README sees in the first five minutes, on a terminal of 80 × 24: each screen by the function that draws it,
//! from data that are the same on every machine.

use std::time::Duration;

use clap::FromArgMatches as _;
use quell_effect::report::Question;
use quell_effect::{Effect, Measure, Phase, Slice};
use quell_linux::target::{Found, What};
use quell_model::{Class, CpuCount, Nanos, Selector, ThreadId, Workload};
use quell_policy::recommend::Looks;
use quell_report::screen::Screen;

use super::protect::before::Before;
use super::protect::course::Course;
use super::protect::target::Subject;
use super::{Command, doctor, exec, gap, pasted, protect, sample, status, top};

const COLUMNS: usize = 80;
/// One line of 24 is the prompt's.
const LINES: usize = 23;

/// Five seconds with these latencies, ns, again and again.
fn phase(cells: &[u64]) -> Phase {
    let mut phase = Phase::new(Measure::Probe, Vec::new());
    phase.slices = (0..50)
        .map(|slice| Slice {
            from_ns: slice * 100_000_000,
            to_ns: (slice + 1) * 100_000_000,
            cells: cells.iter().map(|ns| (*ns, 5)).collect(),
        })
        .collect();
    phase
}

fn protected() -> String {
    let matches = crate::bare_command().try_get_matches_from(["quell", "protect", "nginx"]).unwrap();
    let Command::Protect(arguments) = crate::Cli::from_arg_matches(&matches).unwrap().command else { unreachable!() };
    let mut subject = Subject::of_workload("protect", "nginx", vec![Selector::Unit("nginx.service".into())]);
    subject.words = "nginx.service".into();
    subject.found.push(Found {
        what: What::Unit("nginx.service".into()),
        name: "nginx".into(),
        roots: Vec::new(),
        processes: [4711, 4712].map(|tid| ThreadId { tid, start: 1 }).into(),
        command: "nginx: master process".into(),
        user: Some(0),
        is_strangers: false,
    });
    let workload = Workload::new("nginx", Class::LatencyCritical, CpuCount(500));
    let question =
        Question { target: "nginx", changed: "protected", quantile: 0.99, settling: Duration::from_millis(500) };
    let effect = Effect::of(
        &question,
        &phase(&[180_000, 900_000, 4_000_000, 12_000_000, 41_000_000]),
        &phase(&[90_000, 110_000, 120_000, 190_000, 240_000]),
    );
    let before = Before { phase: None, looks: Looks::default() };
    let course = Course::new(&arguments, &subject, &workload, "guard", (Nanos::from_secs(5), before), 2);
    protect::output::text(&course, Some(&effect), &Screen::columns(COLUMNS))
}

fn executed() -> String {
    let words = exec::measured::tests::measured().words(&exec::measured::tests::phase(Measure::QueueingDelay, 1840));
    Screen::columns(COLUMNS).wrap(&format!("quell: web: {}", words.unwrap())) + "\n"
}

#[test]
fn the_screens_of_the_first_five_minutes() {
    let screen = Screen::columns(COLUMNS);
    let screens = [
        ("quell doctor", doctor::short::text(&doctor::text::tests::report(), &screen)),
        ("quell gap", gap::services::text(&gap::services::tests::busy(), false, &|_| true, &screen)),
        ("quell protect nginx", protected()),
        ("quell exec -- nginx", executed()),
        ("quell status", status::text(&sample::status(4), false, &screen)),
    ];
    let mut all = String::new();
    for (command, text) in screens {
        pasted::assert_taken(command);
        quell_report::testing::assert_fits(&text, COLUMNS);
        assert!(text.lines().count() <= LINES, "{command}: {} lines\n{text}", text.lines().count());
        assert!(text.lines().next().is_some_and(|first| first.len() > 20), "{command}: a headline first\n{text}");
        pasted::within(&text).for_each(pasted::assert_taken);
        all += &format!("$ {command}\n{text}\n");
    }
    let live = top::render::tests::screen(&top::render::tests::two_minutes(), COLUMNS as u16, 24);
    pasted::within(live.lines().next().unwrap()).for_each(pasted::assert_taken);
    insta::assert_snapshot!("first_minutes_80x24", all + "$ quell top\n" + &live);
}
