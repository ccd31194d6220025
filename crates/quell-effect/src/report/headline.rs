//! A comparison in one line.

use quell_model::foreign;

use super::Effect;
use crate::compare::{Comparison, Finding};
use crate::quantile;

/// `web: p99 612 µs before, 41.0 µs protected (15 × lower; 1,840 and 1,902 requests)`
pub(super) fn of(effect: &Effect, wanted: f64) -> String {
    let target = foreign::text(&effect.target);
    let counts = counts(effect);
    let Some(comparison) = &effect.comparison else {
        let fix = "put load on it, or measure for longer";
        return format!("{target}: too little was measured to compare ({counts}): {fix}");
    };
    let name = effect.quantile_name(comparison.quantile);
    let [before, after] = [comparison.before_ns, comparison.after_ns].map(|ns| effect.duration(ns));
    let values = format!("{name} {before} before, {after} {}", foreign::text(&effect.changed));
    let few =
        if comparison.quantile < wanted { format!(", too few for {}", quantile::name(wanted)) } else { String::new() };
    match comparison.finding {
        Finding::Lower | Finding::Higher => {
            format!("{target}: {values} ({}; {counts}{few})", change(effect, comparison))
        }
        Finding::NoChange => format!("{target}: no change seen: {values} ({}{counts}{few})", within(comparison)),
        Finding::TooFew => format!("{target}: measured too shortly to compare: {values} ({counts}{few})"),
    }
}

/// `1,840 and 1,902 requests`
fn counts(effect: &Effect) -> String {
    let [before, after] = [effect.before.count, effect.after.count].map(grouped);
    format!("{before} and {after} {}", effect.measure.values())
}

/// `15 × lower`, `18 % higher`; a value beyond the last bucket makes it a bound.
fn change(effect: &Effect, comparison: &Comparison) -> String {
    let is_lower = comparison.finding == Finding::Lower;
    let factor = if is_lower { 1.0 / comparison.ratio } else { comparison.ratio };
    let way = if is_lower { "lower" } else { "higher" };
    let is_beyond = |ns| effect.last_bound_ns.is_some_and(|last| ns > last);
    let least = if is_beyond(comparison.before_ns) || is_beyond(comparison.after_ns) { "at least " } else { "" };
    match factor {
        factor if factor >= 10.0 => format!("{least}{} × {way}", grouped(factor.round() as u64)),
        factor if factor >= 2.0 => format!("{least}{factor:.1} × {way}"),
        _ => format!("{least}{:.0} % {way}", 100.0 * (comparison.ratio - 1.0).abs()),
    }
}

/// What the change may have been.
fn within(comparison: &Comparison) -> String {
    let Some((low, high)) = comparison.interval else { return String::new() };
    format!("{low:.2} to {high:.2} of before; ")
}

/// `1,840`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
