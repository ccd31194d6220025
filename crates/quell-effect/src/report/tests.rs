use std::time::Duration;

use quell_report::screen::Screen;
use quell_report::testing::assert_fits;

use super::{Effect, Question};
use crate::compare::Finding;
use crate::phase::tests::{MS, phase};
use crate::phase::{Measure, Phase};

const US: u64 = 1_000;

/// Values around one, the same in each slice.
fn around(measure: Measure, ns: u64, slices: usize) -> Phase {
    phase(measure, 0, (0..slices as u64).map(|slice| (0..10).map(|at| ns - ns / 100 * ((at + slice) % 7)).collect()))
}

fn question(target: &str) -> Question<'_> {
    Question { target, changed: "protected", quantile: 0.99, settling: Duration::from_millis(500) }
}

fn effect(measure: Measure, before: u64, after: u64) -> Effect {
    Effect::of(&question("web"), &around(measure, before, 184), &around(measure, after, 195))
}

#[test]
fn a_change_is_one_line_with_both_values_and_counts() {
    for (measure, after, headline) in [
        (
            Measure::Histogram,
            41 * US,
            "web: p99 612 µs before, 41.0 µs protected (15 × lower; 1,840 and 1,900 requests)",
        ),
        (
            Measure::Probe,
            1_400 * US,
            "web: p99 612 µs before, 1.40 ms protected (2.3 × higher; 1,840 and 1,900 requests of a probe)",
        ),
        (
            Measure::QueueingDelay,
            490 * US,
            "web: queueing delay p99 612 µs before, 490 µs protected (20 % lower; 1,840 and 1,900 intervals of its threads)",
        ),
    ] {
        assert_eq!(effect(measure, 612 * US, after).headline, headline);
    }
}

#[test]
fn no_change_is_an_answer() {
    let effect = effect(Measure::Probe, 612 * US, 612 * US);
    assert_eq!(effect.comparison.unwrap().finding, Finding::NoChange);
    assert!(effect.headline.starts_with("web: no change seen: p99 612 µs before, 612 µs protected (1.00 to 1.00 of"));
}

#[test]
fn queueing_delay_is_never_called_latency_and_said_to_be_none() {
    let effect = effect(Measure::QueueingDelay, 612 * US, 41 * US);
    let text = effect.text(&Screen::columns(80)) + &serde_json::to_string(&effect).unwrap();
    assert!(text.contains("queueing delay p99") && !text.to_lowercase().contains("latency"), "{text}");
    assert!(effect.caveats[0].contains("not how long a request takes"), "{:?}", effect.caveats);
}

#[test]
fn too_few_values_have_a_lower_quantile_or_none() {
    let of = |slices| {
        Effect::of(&question("web"), &around(Measure::Probe, MS, slices), &around(Measure::Probe, 9 * MS, 200))
    };
    assert!(of(31).headline.ends_with("(9.0 × higher; 310 and 1,950 requests of a probe, too few for p99)"));
    assert!(of(31).headline.starts_with("web: p90 "));
    let one = of(1);
    assert_eq!(
        one.headline,
        "web: too little was measured to compare (10 and 1,950 requests of a probe): put load on it, or measure for longer"
    );
    assert!(one.comparison.is_none() && !one.text(&Screen::columns(80)).contains('█'));
    assert!(of(9).headline.starts_with("web: measured too shortly to compare: p50 "), "{}", of(9).headline);
}

#[test]
fn what_is_beyond_the_last_bucket_is_only_a_bound() {
    let edges = |phase| Phase { edges: vec![MS, 10 * MS], ..phase };
    let before = edges(phase(Measure::Histogram, 0, vec![vec![10 * MS + 1; 10]; 120]));
    let effect = Effect::of(&question("web"), &before, &edges(around(Measure::Histogram, MS / 2, 195)));
    assert_eq!(
        effect.headline,
        "web: p99 over 10.0 ms before, 500 µs protected (at least 20 × lower; 1,200 and 1,900 requests)"
    );
}

#[test]
fn a_load_that_changed_and_a_drift_are_said() {
    let calm = effect(Measure::Histogram, 612 * US, 41 * US);
    assert_eq!(calm.caveats, Vec::<String>::new());
    let busier = phase(Measure::Histogram, 0, vec![vec![41 * US; 13]; 195]);
    let effect = Effect::of(&question("web"), &around(Measure::Histogram, 612 * US, 184), &busier);
    assert_eq!(
        effect.caveats,
        ["The load changed meanwhile, from 100 /s to 130 /s: part of the difference may be its."]
    );
    let silent = phase(Measure::Probe, 0, vec![vec![41 * US; 5]; 195]);
    let effect = Effect::of(&question("web"), &around(Measure::Probe, 612 * US, 184), &silent);
    assert!(effect.caveats[0].starts_with("The probe's answers changed from 100 /s to 50 /s:"), "{:?}", effect.caveats);
    let falling = phase(Measure::Probe, 0, (0..240).map(|slice| vec![if slice < 120 { 9 * MS } else { MS }; 10]));
    let effect = Effect::of(&question("web"), &falling, &around(Measure::Probe, MS / 2, 195));
    assert_eq!(
        effect.caveats,
        ["p99 fell by itself within the measurement \"before\", from 9.00 ms to 1.00 ms: measure for longer."]
    );
}

#[test]
fn the_screen_has_a_headline_and_a_bar_for_each_phase() {
    let text = effect(Measure::Histogram, 612 * US, 41 * US).text(&Screen::columns(80));
    let expected = "\
web: p99 612 µs before, 41.0 µs protected (15 × lower; 1,840 and 1,900 requests)

before     ██████████████████████████████████████████████████████▌       612 µs
protected  ██████████████████▊                                           41.0 µs
           10 µs                         100 µs                         1 ms
";
    assert_eq!(text, expected, "\n{text}");
    for columns in [40, 60, 80, 200] {
        assert_fits(&effect(Measure::QueueingDelay, 612 * US, 41 * US).text(&Screen::columns(columns)), columns);
    }
}

#[test]
fn a_strangers_name_cannot_draw_on_the_terminal() {
    let calm = around(Measure::Probe, MS, 20);
    let effect = Effect::of(&question("a\x1b[2Jb\nc"), &calm, &calm);
    assert!(effect.headline.starts_with("a\\x1b[2Jb\\nc: "), "{}", effect.headline);
}

#[test]
fn json_brings_it_back() {
    let effect = effect(Measure::QueueingDelay, 612 * US, 41 * US);
    let text = serde_json::to_string(&effect).unwrap();
    assert!(text.contains("\"measure\":\"queueing-delay\"") && text.contains("\"finding\":\"lower\""), "{text}");
    assert_eq!(serde_json::from_str::<Effect>(&text).unwrap().headline, effect.headline);
    let schema = serde_json::to_value(schemars::schema_for!(Effect)).unwrap();
    assert!(schema["properties"]["comparison"].is_object());
}
