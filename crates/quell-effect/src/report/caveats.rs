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
    if before.measure == Measure::QueueingDelay {
        caveats.push(
            "Queueing delay is how long its threads waited for a CPU, not how long a request takes: for that, give a URL or its \
             histogram."
                .into(),
        );
    }
    caveats.extend(drift("before", before, question.quantile));
    caveats.extend(drift(question.changed, after, question.quantile));
    caveats
}

/// A service's own requests are its load; of a probe's there are always as many, and those without an answer are missing.
fn load(before: &Phase, after: &Phase) -> Option<String> {
    let [then, now] = [before.per_second(), after.per_second()];
    if then == 0.0 || now == 0.0 || (now - then).abs() <= OTHER_LOAD * then {
        return None;
    }
    let [then, now] = [then, now].map(human::rate);
    match before.measure {
        Measure::Histogram => {
            Some(format!("The load changed meanwhile, from {then} to {now}: part of the difference may be its."))
        }
        Measure::Probe => Some(format!(
            "The probe's answers changed from {then} to {now}: requests without an answer are in no quantile."
        )),
        Measure::QueueingDelay => None,
    }
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
