//! What is to be known beside a comparison of two phases.

use quell_report::human;

use super::Question;
use crate::compare::{Finding, compare};
use crate::phase::{Measure, Phase};
use crate::quantile;

/// A load that differs by more than this share is said.
const OTHER_LOAD: f64 = 0.1;

/// A sentence each. The second phase is without the time in which the change settled.
pub(super) fn of(question: &Question<'_>, before: &Phase, after: &Phase) -> Vec<String> {
    let mut caveats = Vec::new();
    caveats.extend(load(before, after));
    caveats.extend(drift("before", before, question.quantile));
    caveats.extend(drift(question.changed, after, question.quantile));
    caveats
}

/// A service's own requests are its load; a probe's are the probe's.
fn load(before: &Phase, after: &Phase) -> Option<String> {
    let [then, now] = [before.per_second(), after.per_second()];
    let differs = (now - then).abs() > OTHER_LOAD * then;
    (before.measure == Measure::Histogram && then > 0.0 && now > 0.0 && differs).then(|| {
        format!(
            "The load changed meanwhile, from {} to {}: part of the difference may be its.",
            human::rate(then),
            human::rate(now)
        )
    })
}

/// One half of a phase against the other.
fn drift(name: &str, phase: &Phase, wanted: f64) -> Option<String> {
    let [first, second] = phase.halves();
    let drift = compare(&first, &second, wanted)?;
    let way = match drift.finding {
        Finding::Lower => "fell",
        Finding::Higher => "rose",
        Finding::NoChange | Finding::TooFew => return None,
    };
    Some(format!(
        "{}{} {way} by itself within the measurement \"{}\", from {} to {}: measure for longer.",
        phase.measure.prefix(),
        quantile::name(drift.quantile),
        quell_model::foreign::text(name),
        human::nanoseconds(drift.before_ns),
        human::nanoseconds(drift.after_ns),
    ))
}
