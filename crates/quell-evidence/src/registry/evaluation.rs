//! How the claims of a paper's evaluation are written down.

use crate::claim::{Claim, Expected, Source, Tolerance};

/// What should come out, what would mean "no effect", and how far off still counts.
pub(super) type What = (Expected, f64, Tolerance);

/// Writes claims of a topic down, from the text of this name: name, what is expected, statement, place in the text, and why
/// it is not reproduced if that is known.
macro_rules! claims {
    ($topic:literal from $text:literal
     $($name:literal $what:ident($($of:expr),*) $statement:literal $place:literal $(why $why:literal)?;)+) => {
        &[$(&$crate::registry::evaluation::claim(
            concat!($topic, ".", $name),
            $statement,
            $crate::claim::Source { text: $text, place: $place },
            $what($($of),*),
            &[$($why)?],
        )),+]
    };
}
pub(super) use claims;

/// One of them. A bound that Quell sets itself is Quell's own claim.
pub(super) const fn claim(
    id: &'static str,
    statement: &'static str,
    source: Source,
    (expected, no_effect, tolerance): What,
    why: &[&'static str],
) -> Claim {
    let known_difference = if let [why] = why { Some(*why) } else { None };
    let source = if let Expected::AtMost(_) = expected { Source { text: "quell", ..source } } else { source };
    Claim { id, statement, source, expected, tolerance, no_effect, known_difference }
}

/// A number in the text.
pub(super) const fn number(value: f64, no_effect: f64) -> What {
    let reason = "programs are stand-ins of a few numbers each, calibrated alone, and the machine's memory is assumed";
    close(value, no_effect, 0.2, reason)
}

/// A number in the text, with a tolerance of its own.
pub(super) const fn close(value: f64, no_effect: f64, relative: f64, reason: &'static str) -> What {
    (Expected::Number(value), no_effect, Tolerance { relative, reason })
}

/// A number that follows from the text; the statement says how.
pub(super) const fn computed(value: f64, no_effect: f64) -> What {
    let (_, no_effect, tolerance) = number(value, no_effect);
    (Expected::Computed(value), no_effect, tolerance)
}

/// A sentence that says: below this.
pub(super) const fn below(bound: f64) -> What {
    (Expected::Below(bound), 1.0, Tolerance { relative: 0.0, reason: "a sentence without a number" })
}

/// A sentence that says which of two is less; the value is that one over the other.
pub(super) const fn sentence() -> What {
    below(1.0)
}
