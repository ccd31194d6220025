//! Windows before against windows after.

use quell_model::trial::{Finding, Judge, Windows};

/// A smaller change is no effect, whatever the spread.
const LEAST_EFFECT: f32 = 0.02;
/// A change counts beyond this many times the spread over the root of the number of windows. With three windows a side
/// that is 1.7 half ranges, with eight 1.1.
const SPREADS: f32 = 1.5;
/// A load that moved by more says nothing about the knob.
const LOAD_MOVED: f32 = 0.1;

/// The least change that counts.
pub fn margin(judge: Judge, before: &Windows, after: &Windows) -> f32 {
    let error = |of: &Windows| of.spread / f32::from(of.count.max(1)).sqrt();
    let whole = if judge == Judge::Contention { 1.0 } else { before.median.abs() };
    (SPREADS * (error(before) + error(after))).max(LEAST_EFFECT * whole)
}

/// Is the measure after below that before, or above it, by more than both spread?
pub fn compare(judge: Judge, before: &Windows, after: &Windows) -> Finding {
    let change = after.median - before.median;
    let margin = margin(judge, before, after);
    match change {
        change if change < -margin => Finding::Helped,
        change if change > margin => Finding::Harmed,
        _ => Finding::NoEffect,
    }
}

/// The same with the load in mind: one that moved by more than a tenth, and by more than it spreads, takes away what it
/// explains itself. Less load explains help, more load harm, and either hides that there was none.
pub fn with_load(finding: Finding, before: &Windows, after: &Windows) -> Finding {
    let change = after.median - before.median;
    let least = (LOAD_MOVED * before.median.abs()).max(SPREADS * (before.spread + after.spread) / 2.0);
    let (fell, rose) = (change < -least, change > least);
    match finding {
        Finding::Helped if fell => Finding::Unclear,
        Finding::Harmed if rose => Finding::Unclear,
        Finding::NoEffect if fell || rose => Finding::Unclear,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(median: f32, spread: f32, count: u8) -> Windows {
        Windows { median, spread, count }
    }

    #[test]
    fn a_change_counts_only_beyond_the_spread() {
        let of = |before, after| compare(Judge::Latency, &before, &after);
        assert_eq!(of(windows(10.0, 0.1, 3), windows(8.0, 0.1, 3)), Finding::Helped);
        assert_eq!(of(windows(10.0, 1.5, 3), windows(8.0, 1.5, 3)), Finding::NoEffect);
        assert_eq!(of(windows(10.0, 1.5, 8), windows(8.0, 1.5, 8)), Finding::Helped, "more windows show more");
        assert_eq!(of(windows(10.0, 0.1, 3), windows(12.0, 0.1, 3)), Finding::Harmed);
        assert_eq!(of(windows(10.0, 0.0, 3), windows(9.9, 0.0, 3)), Finding::NoEffect, "less than 2 %");
    }

    #[test]
    fn a_load_that_moved_takes_away_what_it_explains() {
        let (usual, less, more) = (windows(100.0, 1.0, 3), windows(80.0, 1.0, 3), windows(120.0, 1.0, 3));
        assert_eq!(with_load(Finding::Helped, &usual, &less), Finding::Unclear);
        assert_eq!(with_load(Finding::Helped, &usual, &more), Finding::Helped, "in spite of more load");
        assert_eq!(with_load(Finding::Harmed, &usual, &more), Finding::Unclear);
        assert_eq!(with_load(Finding::Harmed, &usual, &less), Finding::Harmed, "in spite of less load");
        assert_eq!(with_load(Finding::NoEffect, &usual, &less), Finding::Unclear);
        assert_eq!(with_load(Finding::NoEffect, &usual, &windows(105.0, 1.0, 3)), Finding::NoEffect);
    }
}
