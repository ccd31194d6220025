use std::time::Duration;

use proptest::prelude::*;

use super::draws::Draws;
use super::found::looks;
use super::series::groups;
use super::synthetic::{Kind, PER_BLOCK, blocks};
use super::*;
use crate::phase::Measure;

const ARMS: Arms<'_> = Arms { measure: Measure::Probe, off: "off", on: Arms::ON };

fn request() -> Request {
    Request {
        quantile: 0.9,
        per_second: 100.0,
        settling: Duration::from_millis(250),
        length: Duration::from_secs(90),
        off_share: 1.0 / 3.0,
        margin: 0.1,
        seed: 7,
    }
}

fn design(seed: u64) -> Design {
    Design::of(&Request { seed, ..request() }).unwrap()
}

/// The design as an experiment with this seed runs it, for the p90 of 100 values a block.
fn small(seed: u64) -> Design {
    let design = Design { seed, ..design(1) };
    assert_eq!((design.groups, design.quantile), (20, 0.9), "what the figures below are of");
    design
}

#[test]
fn blocks_are_long_enough_for_the_quantile_or_the_quantile_is_a_lower_one() {
    for (per_second, minutes, quantile, block) in [
        (1_000.0, 10, 0.99, 1.5),
        (200.0, 10, 0.99, 6.5),
        (100.0, 10, 0.99, 12.75),
        (100.0, 9, 0.9, 1.5),
        (20.0, 10, 0.9, 6.5),
        (2.0, 10, 0.5, 12.75),
    ] {
        let length = Duration::from_secs(60 * minutes);
        let design = Design::of(&Request { quantile: 0.99, per_second, length, ..request() }).unwrap();
        assert_eq!((design.quantile, design.block_seconds), (quantile, block), "{per_second}");
        assert!(design.groups >= 15 && design.seconds() <= length.as_secs_f64());
        assert_eq!(design.looks.last(), Some(&design.groups));
        assert!((design.off_seconds() * 3.0 - design.seconds()).abs() < 1e-6);
    }
}

#[test]
fn what_cannot_be_planned_is_refused_with_the_fix() {
    for (request, fix) in [
        (Request { per_second: 1.0, ..request() }, "2 min"),
        (Request { per_second: 1.0, ..request() }, "give --for 1137s or more"),
        (Request { per_second: 1.0, ..request() }, "where 1 /s are measured"),
        (Request { per_second: 0.0, ..request() }, "put load on the service"),
        (Request { off_share: 0.7, ..request() }, "0.1 to 0.5"),
        (Request { off_share: f64::NAN, ..request() }, "0.1 to 0.5"),
        (Request { margin: 0.0, ..request() }, "above 0"),
        (Request { quantile: 0.3, ..request() }, "give 0.5"),
    ] {
        let request = Request { length: Duration::from_secs(120), ..request };
        let error = Design::of(&request).unwrap_err().to_string();
        assert!(error.contains(fix) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn the_least_time_that_is_named_is_enough_and_a_second_less_is_not() {
    for off_share in [0.1, 1.0 / 3.0, 0.5] {
        let asked = |seconds| Request { length: Duration::from_secs(seconds), off_share, ..request() };
        let error = Design::of(&asked(1)).unwrap_err().to_string();
        let least: u64 = error.split("--for ").nth(1).unwrap().split('s').next().unwrap().parse().unwrap();
        assert!(Design::of(&asked(least)).is_ok() && Design::of(&asked(least - 1)).is_err(), "{error}");
    }
}

#[test]
fn what_is_fixed_is_said_beforehand() {
    let text = design(7).text();
    assert_eq!(
        text,
        "Off for 30 s of 1 min 30 s: one block of each 3 in a row, drawn at random (seed 7); 20 groups, blocks of 1.50 s, the \
         first 250 ms of each dropped.\nJudged by p90; a verdict after 4, 8, 12, 16 or 20 groups, wrong in 5 of 100 where there is \
         no difference, and none between."
    );
}

proptest! {
    #[test]
    fn each_group_has_one_block_off_wherever_it_is_drawn(seed in any::<u64>(), share in 0.1f64..=0.5) {
        let design = Design::of(&Request { seed, off_share: share, length: Duration::from_secs(600), ..request() }).unwrap();
        let turns = design.turns();
        prop_assert_eq!(turns.len() as u32, design.groups * design.blocks_per_group);
        for (number, group) in (0..).zip(turns.chunks(design.blocks_per_group as usize)) {
            prop_assert!(group.iter().all(|turn| turn.group == number));
            prop_assert_eq!(group.iter().filter(|turn| !turn.on).count(), 1);
        }
    }
}

#[test]
fn seeds_draw_other_orders_and_all_places_are_drawn() {
    assert_ne!(design(1).turns(), design(2).turns());
    assert_eq!(design(1).turns(), design(1).turns());
    let first_is_off = (0..600).filter(|seed| !Design { seed: *seed, ..design(1) }.turns()[0].on).count();
    assert!((150..250).contains(&first_is_off), "{first_is_off} of 600");
}

/// The verdict at the first look that has one, as an experiment goes.
fn run(design: &Design, blocks: &[Measured]) -> Found {
    let looks = design.looks.iter().map(|look| (look * design.blocks_per_group) as usize);
    let mut found = looks.map(|blocks_so_far| analyse(design, &blocks[..blocks_so_far]));
    let mut last = found.next().unwrap();
    for next in found {
        if last.verdict.is_final() {
            break;
        }
        last = next;
    }
    last
}

/// How many experiments of this many, in which there is no difference, have a verdict that there is.
fn wrong_verdicts(kind: Kind, series: u64) -> u64 {
    (0..series)
        .filter(|number| has_a_verdict(*number, &|design| blocks(design, kind, number ^ 0x5eed, 1.0, |_| 1.0)))
        .count() as u64
}

fn has_a_verdict(number: u64, blocks: &dyn Fn(&Design) -> Vec<Measured>) -> bool {
    let design = small(number);
    let (groups, _) = groups(&blocks(&design), 3, design.quantile);
    let is_possible = |look: &u32| Draws::of(&groups, looks(&design, &groups, *look), design.seed).is_possible(0.0);
    !design.looks.iter().all(is_possible)
}

/// How much the values of neighbours have in common.
fn correlation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let product = |apart: usize| {
        values.iter().zip(&values[apart..]).map(|(one, other)| (one - mean) * (other - mean)).sum::<f64>()
    };
    product(1) / product(0)
}

/// The same of latencies of a real service that were recorded, which depend on each other over many blocks.
#[test]
fn of_recorded_series_without_a_difference_four_to_six_in_a_hundred_have_a_verdict() {
    let lines = recorded::lines();
    assert!(lines.len() >= 1_400 && lines.iter().map(Vec::len).sum::<usize>() >= 10_000);
    let of_blocks: Vec<f64> =
        recorded::in_order(&lines, &small(0)).iter().map(|block| series::logarithm(&block.phase, 0.9)).collect();
    let alike = correlation(&of_blocks);
    assert!(alike > 0.2, "the recording's blocks depend on each other: {alike}");
    let wrong =
        (0..2_000).filter(|number| has_a_verdict(*number, &|design| recorded::blocks(&lines, design, *number))).count();
    assert!((80..=120).contains(&wrong), "{wrong} of 2,000");
}

/// The promise: 5 of 100, whatever the values depend on.
#[test]
fn of_series_without_a_difference_four_to_six_in_a_hundred_have_a_verdict() {
    let wrong = Kind::ALL.map(|kind| wrong_verdicts(kind, 1_000));
    let share = |wrong: u64, of: u64| wrong as f64 / of as f64;
    assert!((0.04..=0.06).contains(&share(wrong.iter().sum(), 3_000)), "{wrong:?} of 1,000 each");
    assert!(wrong.iter().all(|wrong| (0.03..=0.07).contains(&share(*wrong, 1_000))), "{wrong:?} of 1,000 each");
}

/// `cargo test -p quell-effect --release -- --ignored --nocapture of_many_series`
#[test]
#[ignore = "a minute; the same over 60,000 series"]
fn of_many_series_without_a_difference_four_to_six_in_a_hundred_have_a_verdict() {
    for kind in Kind::ALL {
        let wrong = wrong_verdicts(kind, 20_000);
        println!("{kind:?}: {wrong} of 20,000");
        assert!((800..=1_200).contains(&wrong), "{kind:?}: {wrong} of 20,000");
    }
}

#[test]
fn a_difference_is_found_and_never_the_wrong_way() {
    for (kind, factor, right) in [
        (Kind::Autoregressive, 0.5, Verdict::Helps),
        (Kind::Diurnal, 0.8, Verdict::Helps),
        (Kind::Diurnal, 1.3, Verdict::Harms),
    ] {
        let verdicts: Vec<Verdict> =
            (0..20).map(|seed| run(&small(seed), &blocks(&small(seed), kind, seed, factor, |_| 1.0)).verdict).collect();
        let is_right = verdicts.iter().filter(|verdict| **verdict == right).count();
        let wrong = if right == Verdict::Helps { Verdict::Harms } else { Verdict::Helps };
        assert!(is_right >= 17 && !verdicts.contains(&wrong), "{kind:?} {factor}: {verdicts:?}");
    }
}

/// The interval's promise, over all looks together.
#[test]
fn the_interval_holds_the_true_ratio() {
    let found: Vec<Found> =
        (0..60).map(|seed| analyse(&small(seed), &blocks(&small(seed), Kind::Diurnal, seed, 0.8, |_| 1.0))).collect();
    let holds = |found: &&Found| found.interval.is_some_and(|(low, high)| low <= 0.8 && 0.8 <= high);
    let held = found.iter().filter(holds).count();
    assert!(held >= 54, "{held} of 60");
    for found in found {
        let (low, high) = found.interval.unwrap();
        let excludes = high < 1.0 || low > 1.0;
        assert_eq!(excludes, matches!(found.verdict, Verdict::Helps | Verdict::Harms), "{found:?}");
    }
}

#[test]
fn no_difference_has_a_bound_and_too_little_says_how_much_more() {
    let design = small(3);
    // Values that hardly vary.
    let steady = |factor: f64| {
        let mut blocks = blocks(&design, Kind::Diurnal, 3, 1.0, |_| 1.0);
        for (number, block) in blocks.iter_mut().enumerate() {
            let on = if block.turn.on { factor } else { 1.0 };
            let value = |at: usize| ((1e6 + ((at * 31 + number * 17) % 97) as f64 * 500.0) * on) as u64;
            let slice = |slice: &mut crate::Slice| slice.cells = (0..PER_BLOCK / 2).map(|at| (value(at), 1)).collect();
            block.phase.slices.iter_mut().for_each(slice);
        }
        run(&design, &blocks)
    };
    let none = steady(1.0);
    let Verdict::NoDifference { larger_than } = none.verdict else { panic!("{none:?}") };
    assert!(larger_than > 0.0 && larger_than <= 0.1, "{larger_than}");
    assert_eq!(steady(0.8).verdict, Verdict::Helps);

    let unclear = run(&design, &blocks(&design, Kind::Bursty, 5, 1.0, |_| 1.0));
    let Verdict::CannotTell { more_seconds: Some(more) } = unclear.verdict else { panic!("{unclear:?}") };
    assert!(more >= design.group_seconds(), "{more}");
    assert!(
        unclear.headline("web", &ARMS).starts_with("web: cannot tell yet: about "),
        "{}",
        unclear.headline("web", &ARMS)
    );
}

#[test]
fn between_looks_nothing_is_concluded() {
    let design = small(1);
    let blocks = blocks(&design, Kind::Diurnal, 1, 0.3, |_| 1.0);
    let verdicts: Vec<Verdict> = (0..=blocks.len()).map(|so_far| analyse(&design, &blocks[..so_far]).verdict).collect();
    let first = &verdicts[..12];
    assert!(first.iter().all(|verdict| matches!(verdict, Verdict::CannotTell { more_seconds: Some(_) })), "{first:?}");
    // The same from one look to the next.
    for (one, other) in [(24, 35), (36, 47), (48, 59)] {
        assert!(verdicts[one..=other].iter().all(|verdict| *verdict == Verdict::Helps), "{verdicts:?}");
    }
}

#[test]
fn a_load_that_doubles_is_no_difference_and_is_named() {
    let wrong = (0..40).filter(|seed| {
        let design = small(*seed);
        // Twice the load, and three times the latency.
        let mut blocks = blocks(&design, Kind::Autoregressive, *seed, 1.0, |at| if at < 0.5 { 1.0 } else { 2.0 });
        for block in blocks.iter_mut().skip(design.turns().len() / 2) {
            block.phase.slices.iter_mut().flat_map(|slice| &mut slice.cells).for_each(|(ns, _)| *ns *= 3);
        }
        let found = run(&design, &blocks);
        let whole = analyse(&design, &blocks);
        assert!(whole.caveats()[0].starts_with("The load drifted: 2.00 × "), "{:?}", whole.caveats());
        matches!(found.verdict, Verdict::Helps | Verdict::Harms)
    });
    assert!(wrong.count() <= 6);
}

#[test]
fn carry_over_is_found_where_a_block_begins_as_the_one_before() {
    let found = |carried: f64| {
        (0..20)
            .filter(|seed| {
                let design = small(*seed);
                let mut blocks = blocks(&design, Kind::Diurnal, *seed, 0.5, |_| 1.0);
                for at in 1..blocks.len() {
                    let (before, now) = (blocks[at - 1].turn.on, blocks[at].turn.on);
                    let factor = if before == now {
                        1.0
                    } else if now {
                        1.0 / carried
                    } else {
                        carried
                    };
                    let first = &mut blocks[at].phase.slices[0];
                    first.cells.iter_mut().for_each(|(ns, _)| *ns = (*ns as f64 * factor) as u64);
                }
                analyse(&design, &blocks).carry_over.unwrap().is_found
            })
            .count()
    };
    assert!(found(1.0) <= 4 && found(0.5) >= 17, "{} {}", found(1.0), found(0.5));
}

#[test]
fn a_block_that_ended_early_counts_and_one_without_values_sets_its_group_aside() {
    let design = small(2);
    let mut blocks = blocks(&design, Kind::Diurnal, 2, 0.5, |_| 1.0);
    blocks[4].phase.slices.pop();
    let early = analyse(&design, &blocks);
    assert_eq!((early.groups, early.empty_groups, early.verdict), (20, 0, Verdict::Helps));
    blocks[4].phase.slices.clear();
    let empty = analyse(&design, &blocks);
    assert_eq!((empty.groups, empty.empty_groups, empty.verdict), (20, 1, Verdict::Helps));
    assert!(
        empty.caveats().iter().any(|caveat| caveat.starts_with("1 of 20 groups are left out")),
        "{:?}",
        empty.caveats()
    );
    for block in &mut blocks {
        block.phase.slices.clear();
    }
    assert!(matches!(analyse(&design, &blocks).verdict, Verdict::CannotTell { .. }));
    assert!(matches!(analyse(&design, &[]).verdict, Verdict::CannotTell { .. }));
}

#[test]
fn json_has_the_verdict_by_name() {
    let design = small(1);
    let found = run(&design, &blocks(&design, Kind::Diurnal, 1, 0.3, |_| 1.0));
    let text = serde_json::to_string(&found).unwrap();
    assert!(text.contains("\"verdict\":\"helps\""), "{text}");
    assert_eq!(serde_json::from_str::<Found>(&text).unwrap().verdict, Verdict::Helps);
    assert!(found.headline("web", &ARMS).starts_with("web: helps: p90 "), "{}", found.headline("web", &ARMS));
}
