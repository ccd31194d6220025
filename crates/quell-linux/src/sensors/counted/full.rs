//! Memory-buffer-full events of a workload: counted, or estimated from misses of the last-level cache.

use quell_model::{Nanos, Quality, Sample};
use quell_trace::Counts;

use super::Window;
use crate::perf::{CYCLES, FULL, MISSES, REFERENCES};

/// Entries of a core's super queue (Sandy Bridge to Skylake).
const ENTRIES: f64 = 16.0;
/// Cycles of a miss while memory is quiet: 90 ns at 3 GHz (assumed).
const MISS: f64 = 270.0;
/// The part of the references that finds the queue full is this power of its mean filling, as in the simulator (assumed).
const POWER: i32 = 4;

/// References that found the queue full, of this many of cycles, references and misses while memory takes this many times its
/// quiet latency: by Little's law a miss a cycle keeps as many entries taken as it takes cycles.
pub(super) fn estimate(cycles: f64, references: f64, misses: f64, slowdown: f64) -> f64 {
    if cycles <= 0.0 {
        return 0.0;
    }
    let filling = (misses / cycles * MISS * slowdown.max(1.0) / ENTRIES).min(1.0);
    references * filling.powi(POWER)
}

/// Per second of a window of this long, and how good it is: as counted, else estimated, if what that takes was counted.
pub(super) fn rate(counts: &Counts, window: &Window, span: Nanos, slowdown: f64) -> Sample<f64> {
    let count = |event: usize| counts[event] as f64 * window[event].times;
    let (events, quality) = match window[FULL].quality {
        Quality::Absent => {
            let basis = [CYCLES, REFERENCES, MISSES].map(|event| window[event].quality);
            let events = estimate(count(CYCLES), count(REFERENCES), count(MISSES), slowdown);
            (events, basis.into_iter().fold(Quality::Estimated, Ord::min))
        }
        quality => (count(FULL), quality),
    };
    Sample { value: events / span.as_secs_f64(), quality, ..Sample::default() }
}

#[cfg(test)]
mod tests {
    use super::super::Share;
    use super::*;

    fn window(full: Quality, misses: Quality) -> Window {
        let share = |quality| Share { times: 1.0, quality };
        [Quality::Exact, Quality::Exact, Quality::Exact, misses, full].map(share)
    }

    #[test]
    fn counted_events_come_first_and_an_estimate_says_so() {
        let (counts, second) = ([2_000_000, 1_000_000, 500, 30_000, 77], Nanos::from_secs(2));
        let of = |full, misses| {
            let found = rate(&counts, &window(full, misses), second, 1.0);
            (found.value, found.quality)
        };
        assert_eq!(of(Quality::Exact, Quality::Exact), (38.5, Quality::Exact));
        assert_eq!(of(Quality::Stale, Quality::Exact).1, Quality::Stale);
        let (value, quality) = of(Quality::Absent, Quality::Exact);
        assert!((value - 250.0 * 0.50625_f64.powi(4)).abs() < 1e-9 && quality == Quality::Estimated, "{value}");
        assert_eq!(of(Quality::Absent, Quality::Absent).1, Quality::Absent);
    }

    #[test]
    fn more_misses_and_slower_memory_fill_the_queue() {
        assert_eq!(estimate(0.0, 1e6, 1e6, 1.0), 0.0, "it did not run");
        let half = estimate(1e9, 4e7, 0.5 * 1e9 * ENTRIES / MISS, 1.0);
        assert!((half - 4e7 / 16.0).abs() < 1.0, "{half}");
        assert!((estimate(1e9, 4e7, 0.5 * 1e9 * ENTRIES / MISS, 2.0) - 4e7).abs() < 1.0, "it is full");
        assert_eq!(estimate(1e9, 4e7, 1e9, 5.0), 4e7, "no more than all");
    }
}
