use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use quell_model::Nanos;

use super::*;

fn millis(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

fn workload(name: &str) -> Key {
    Key::by(Cause::Workload, name)
}

/// The shares of a burst that ended at `end`, each certain.
fn certain(end: Nanos, of: &[(Key, f64)]) -> Shares {
    let waited = if of.is_empty() { Nanos::ZERO } else { millis(100) };
    let of = of.iter().map(|(key, share)| (key.clone(), Share { share: *share, ..Share::default() })).collect();
    Shares { begin: end - Nanos::from_secs(1), end, waited, of }
}

/// Shares are fractions: times are off by a nanosecond or two.
fn in_millis(time: Nanos) -> u64 {
    (time.0 + 500_000) / 1_000_000
}

fn stated(ledger: &Ledger, key: &Key) -> u64 {
    in_millis(ledger.series().get(key).time)
}

#[test]
fn between_two_bursts_only_what_both_saw_is_stated() {
    let (web, batch, unknown) = (workload("web"), workload("batch"), Key::of(Cause::Unknown));
    let mut ledger = Ledger::default();
    let mut counter = Nanos::ZERO;
    let mut wait = |ledger: &mut Ledger, at: u64, more: u64| {
        counter += millis(more);
        ledger.count(Nanos::from_secs(at), counter);
    };
    wait(&mut ledger, 0, 0);
    wait(&mut ledger, 1, 100);
    ledger.begin_burst();
    wait(&mut ledger, 2, 50);
    ledger.end_burst(Some(certain(Nanos::from_secs(2), &[(web.clone(), 0.8), (batch.clone(), 0.2)])));
    // Nothing says what was before the first burst.
    assert_eq!([&web, &batch, &unknown].map(|key| stated(&ledger, key)), [40, 10, 100]);
    wait(&mut ledger, 12, 1000);
    assert_eq!(ledger.unsettled(), millis(1000));
    ledger.begin_burst();
    ledger.end_burst(Some(certain(Nanos::from_secs(13), &[(web.clone(), 0.5), (batch.clone(), 0.5)])));
    assert_eq!([&web, &batch, &unknown].map(|key| stated(&ledger, key)), [540, 210, 400]);
    let entry = ledger.series().get(&web);
    assert_eq!((in_millis(entry.low), in_millis(entry.high)), (540, 40 + 80 + 800));
    assert_eq!(ledger.series().total(), ledger.waited());
    assert_eq!(in_millis(ledger.by_others()), 750);
}

#[test]
fn a_cause_that_came_or_went_between_two_bursts_is_not_stated() {
    let mut ledger = Ledger::default();
    ledger.count(Nanos::ZERO, Nanos::ZERO);
    ledger.end_burst(Some(certain(Nanos::from_secs(1), &[(workload("gone"), 1.0)])));
    ledger.count(Nanos::from_secs(5), millis(700));
    ledger.end_burst(Some(certain(Nanos::from_secs(6), &[(workload("come"), 1.0)])));
    assert_eq!([stated(&ledger, &workload("gone")), stated(&ledger, &workload("come"))], [0, 0]);
    assert_eq!(stated(&ledger, &Key::of(Cause::Unknown)), 700);
}

#[test]
fn without_bursts_all_is_unknown_and_what_waits_for_one_too_long_is_too() {
    let mut ledger = Ledger::default();
    ledger.count(Nanos::ZERO, Nanos::from_secs(5));
    ledger.count(Nanos::from_secs(1), Nanos::from_secs(6));
    ledger.forget_bursts();
    let unknown = Key::of(Cause::Unknown);
    assert_eq!(
        (ledger.unsettled(), stated(&ledger, &unknown)),
        (Nanos::ZERO, 1000),
        "what was before it came is not its"
    );
    ledger.count(Nanos::from_secs(2), Nanos::from_secs(7));
    ledger.count(Nanos::from_secs(200), Nanos::from_secs(7));
    assert_eq!((ledger.unsettled(), stated(&ledger, &unknown)), (Nanos::ZERO, 2000));
    let recent = ledger.recent(Nanos::from_secs(2));
    assert_eq!(recent.how, How::Unknown);
}

#[test]
fn the_last_seconds_go_by_the_latest_burst_and_more_than_it_saw_is_unknown() {
    let mut ledger = Ledger::default();
    ledger.count(Nanos::ZERO, Nanos::ZERO);
    let mut burst = certain(Nanos::from_secs(1), &[(workload("batch"), 0.9), (Key::of(Cause::OwnThreads), 0.1)]);
    burst.waited = millis(100);
    burst.of.get_mut(&workload("batch")).unwrap().error = 0.05;
    ledger.end_burst(Some(burst));
    ledger.count(Nanos::from_secs(10), millis(1000));
    let recent = ledger.recent(Nanos::from_secs(10));
    assert_eq!((recent.window, recent.waited, recent.how), (Nanos::from_secs(10), millis(1000), How::Estimated));
    let part = &recent.parts[0];
    let times = [part.time, part.low, part.high].map(in_millis);
    assert_eq!((part.key.words(), times), ("batch", [900, 850, 950]));
    // Ten times as much in the next ten seconds: at most one and a half times is explained.
    ledger.count(Nanos::from_secs(20), millis(11_000));
    let recent = ledger.recent(Nanos::from_secs(20));
    assert_eq!((recent.parts[0].key.cause, in_millis(recent.parts[0].time)), (Cause::Unknown, 8500));
    assert_eq!(ledger.recent(Nanos::from_secs(99)).how, How::Unknown, "the burst is too old");
}

#[test]
fn a_limit_takes_idle_time_first_and_two_others_are_not_distinguished() {
    let key = |cause| Key::of(cause);
    type Times<'a> = &'a [(Key, f64)];
    let cases: [(Times, f64, Times); 4] = [
        (&[(key(Cause::IdleCpu), 60.0)], 55.0, &[(key(Cause::OwnLimit), 60.0)]),
        (&[(workload("a"), 60.0)], 20.0, &[(key(Cause::OwnLimit), 20.0), (workload("a"), 40.0)]),
        (
            &[(workload("a"), 60.0), (workload("b"), 30.0)],
            20.0,
            &[(key(Cause::OwnLimit), 20.0), (workload("a"), 40.0), (workload("b"), 10.0), (key(Cause::Unknown), 20.0)],
        ),
        (&[(key(Cause::OwnThreads), 60.0)], 20.0, &[(key(Cause::OwnThreads), 60.0)]),
    ];
    for (times, limit, is) in cases {
        let mut times: BTreeMap<Key, f64> = times.iter().cloned().collect();
        limited::hold_back(&mut times, limit);
        assert_eq!(times, is.iter().cloned().collect::<BTreeMap<_, _>>());
    }
}

#[test]
fn a_limits_time_goes_by_whole_periods() {
    let at = |throttled, periods| Limited { throttled: millis(throttled), periods, period: millis(100) };
    for (after, is) in [(at(750, 10), 750), (at(675, 9), 750), (at(60, 1), 120), (at(0, 10), 0)] {
        assert_eq!(Limited::within(at(0, 0), after, Nanos::from_secs(1)), millis(is), "{after:?}");
    }
    assert_eq!(
        Limited::within(at(5, 3), Limited { throttled: millis(9), ..Limited::default() }, millis(100)),
        millis(4)
    );
}

#[test]
fn bursts_are_paid_from_what_is_saved_and_are_shorter_before_they_are_left_out() {
    let second = Nanos::from_secs(1);
    let mut budget = Budget::new(0.005, Nanos::ZERO);
    let lengths = [second, millis(200)];
    assert_eq!(budget.affords(&lengths), Some(second));
    budget.learn(second, millis(140));
    assert_eq!(budget.affords(&lengths), Some(millis(200)));
    budget.spend(second, millis(140));
    assert_eq!((budget.affords(&lengths), budget.never_affords(millis(200))), (None, false));
    budget.spend(Nanos::from_secs(100), Nanos::ZERO);
    assert_eq!(budget.affords(&lengths), Some(second));
    assert_eq!(budget.left(), millis(300), "no more is saved than of a minute");
    budget.learn(second, Nanos::from_secs(2));
    assert!(budget.never_affords(millis(200)) && budget.affords(&lengths).is_none());
    assert_eq!(budget.spent(), millis(140));
}

#[test]
fn a_burst_is_due_when_something_waits_and_at_once_when_it_waits_much_more() {
    let budget = Budget::new(0.005, Nanos::ZERO);
    let mut pace = Pace::default();
    let mut ledger = Ledger::default();
    let mut counter = Nanos::ZERO;
    let mut wait = |ledger: &mut Ledger, at: u64, more: u64| {
        counter += millis(more);
        ledger.count(Nanos::from_secs(at), counter);
    };
    let look =
        |pace: &mut Pace, at: u64, ledger: &Ledger| pace.look(Nanos::from_secs(at), &budget, [ledger].into_iter());
    wait(&mut ledger, 0, 0);
    wait(&mut ledger, 1, 0);
    assert_eq!(look(&mut pace, 1, &ledger), Due::No, "nothing waits");
    wait(&mut ledger, 2, 60);
    assert_eq!(look(&mut pace, 2, &ledger), Due::Burst(Nanos::from_secs(1)));
    ledger.end_burst(Some(certain(Nanos::from_secs(3), &[(workload("a"), 1.0)])));
    pace.ended(Nanos::from_secs(3));
    wait(&mut ledger, 4, 60);
    assert_eq!(look(&mut pace, 4, &ledger), Due::No);
    wait(&mut ledger, 6, 120);
    assert_eq!(look(&mut pace, 6, &ledger), Due::No, "no more than the burst saw");
    wait(&mut ledger, 7, 300);
    assert_eq!(look(&mut pace, 7, &ledger), Due::Burst(Nanos::from_secs(1)));
    wait(&mut ledger, 13, 60);
    assert_eq!(look(&mut pace, 13, &ledger), Due::Burst(Nanos::from_secs(1)));
    let mut poor = Budget::new(0.005, Nanos::ZERO);
    poor.learn(Nanos::from_secs(1), Nanos::from_secs(1));
    assert_eq!(pace.look(Nanos::from_secs(13), &poor, [&ledger].into_iter()), Due::Unaffordable);
    assert!(pace.limited_since().is_some());
}

#[test]
fn a_strangers_name_is_safe_and_short() {
    let key = Key::by(Cause::Unmanaged, "evil\n\x1b[2J\"}");
    assert_eq!(key.by, "evil\\n\\x1b[2J\"}");
    assert!(Key::by(Cause::Unmanaged, &"x".repeat(5000)).by.len() <= 64);
}

#[derive(Clone, Debug)]
enum Step {
    Count(u64),
    Begin,
    End(Vec<(u8, u16)>),
    Nothing,
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..3_000_000_000).prop_map(Step::Count),
        1 => Just(Step::Begin),
        2 => proptest::collection::vec((0u8..40, 1u16..1000), 1..12).prop_map(Step::End),
        1 => Just(Step::Nothing),
        1 => Just(Step::Forget),
    ]
}

fn shares(at: Nanos, parts: &[(u8, u16)]) -> Shares {
    let mut times = BTreeMap::new();
    for &(key, time) in parts {
        let key = match key {
            0 => Key::of(Cause::OwnThreads),
            1 => Key::of(Cause::Unknown),
            2 => Key::of(Cause::Steal),
            name => Key::by(Cause::Unmanaged, &format!("group-{name}")),
        };
        *times.entry(key).or_default() += f64::from(time);
    }
    Shares::new(at - Nanos::from_secs(1), at, &times, &BTreeMap::new(), 1000)
}

proptest! {
    #[test]
    fn counters_only_grow_stay_few_and_add_up_to_what_the_kernel_counts(steps in proptest::collection::vec(step(), 1..80)) {
        let mut ledger = Ledger::default();
        let (mut now, mut counter) = (Nanos::ZERO, Nanos(77));
        ledger.count(now, counter);
        let mut before: BTreeMap<Key, Entry> = BTreeMap::new();
        for step in steps {
            now += millis(500);
            match step {
                Step::Count(more) => {
                    counter += Nanos(more);
                    ledger.count(now, counter);
                }
                Step::Begin => ledger.begin_burst(),
                Step::End(parts) => ledger.end_burst(Some(shares(now, &parts))),
                Step::Nothing => ledger.end_burst(None),
                Step::Forget => ledger.forget_bursts(),
            }
            let after: BTreeMap<Key, Entry> = ledger.series().iter().map(|(key, entry)| (key.clone(), *entry)).collect();
            prop_assert_eq!(ledger.series().total() + ledger.unsettled(), counter - Nanos(77));
            prop_assert_eq!(ledger.waited(), counter - Nanos(77));
            for (key, entry) in &before {
                let now = after.get(key).copied();
                prop_assert!(now.is_some_and(|now| now.time >= entry.time && now.low >= entry.low && now.high >= entry.high), "{:?}", key);
            }
            prop_assert!(after.values().all(|entry| entry.low <= entry.time && entry.time <= entry.high));
            prop_assert!(after.keys().filter(|key| key.is_named()).count() <= MOST_NAMED);
            let recent = ledger.recent(now);
            let sum = recent.parts.iter().fold(Nanos::ZERO, |sum, part| sum + part.time);
            prop_assert!(sum.0 <= recent.waited.0 + 10 && sum.0 as f64 >= 0.98 * recent.waited.0 as f64 - 10.0, "{:?}", recent);
            let names: BTreeSet<&Key> = recent.parts.iter().map(|part| &part.key).collect();
            prop_assert_eq!(names.len(), recent.parts.len());
            before = after;
        }
    }
}

/// A fast random number, for courses of causes.
fn random(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn causes_that_take_turns_are_within_the_stated_interval_in_19_of_20() {
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    let (mut inside, mut worst, runs) = (0, 0.0f64, 200);
    for _ in 0..runs {
        // Milliseconds of ten minutes: which of two waits; turns of 300 ms on average.
        let mut course = Vec::with_capacity(600_000);
        let mut which = 0;
        while course.len() < 600_000 {
            let turn = (-random(&mut seed).max(1e-9).ln() * 300.0).clamp(1.0, 3000.0) as usize;
            course.extend(std::iter::repeat_n(which, turn));
            which = 1 - which;
        }
        let keys = [workload("a"), workload("b")];
        let mut ledger = Ledger::default();
        let mut truth = [0u64; 2];
        let mut counted = Nanos::ZERO;
        ledger.count(Nanos::ZERO, counted);
        let mut at = 0;
        let mut pass = |ledger: &mut Ledger, from: usize, to: usize, truth: &mut [u64; 2]| {
            course[from..to].iter().for_each(|which| truth[*which] += 1);
            counted += millis((to - from) as u64);
            ledger.count(millis(to as u64), counted);
        };
        while at + 11_000 <= 600_000 {
            let slices: Vec<BTreeMap<Key, f64>> = (0..10)
                .map(|slice| {
                    let mut times = BTreeMap::new();
                    for which in &course[at + slice * 100..at + (slice + 1) * 100] {
                        *times.entry(keys[*which].clone()).or_default() += 1e6;
                    }
                    times
                })
                .collect();
            let mut times = BTreeMap::new();
            slices.iter().flatten().for_each(|(key, time)| *times.entry(key.clone()).or_default() += time);
            ledger.begin_burst();
            pass(&mut ledger, at, at + 1000, &mut truth);
            let (begin, end) = (millis(at as u64), millis(at as u64 + 1000));
            let row = |key| std::array::from_fn(|slice| slices[slice].get(key).copied().unwrap_or(0.0));
            let rows: Vec<(&Key, [f64; 10])> = times.keys().map(|key| (key, row(key))).collect();
            let by_slice = rows.iter().map(|(key, row)| (*key, row)).collect();
            ledger.end_burst(Some(Shares::new(begin, end, &times, &by_slice, 3800)));
            at += 1000;
            if at + 11_000 <= 600_000 {
                pass(&mut ledger, at, at + 10_000, &mut truth);
                at += 10_000;
            }
        }
        let all: u64 = truth.iter().sum();
        let fits = |which: usize| {
            let entry = ledger.series().get(&keys[which]);
            let is = truth[which] * 1_000_000;
            worst = worst.max(entry.time.0.saturating_sub(is) as f64 / (all as f64 * 1e6));
            entry.low.0 <= is && is <= entry.high.0
        };
        inside += usize::from((0..2).map(fits).fold(true, |all, fits| all & fits));
    }
    assert!(inside * 20 >= runs * 19, "{inside} of {runs}");
    assert!(worst <= 0.05, "{worst}: blamed for more than it did");
}
