//! The service's own histogram.

use std::time::Duration;

use quell_scrape::{Counts, Scraper, Source as Page};
use quell_thread::clock;
use tokio::runtime::Runtime;

use super::Source;
use crate::error::{EffectError, Result};
use crate::phase::{Measure, Slice};

/// Time between two readings: a page may have a megabyte.
const EVERY: Duration = Duration::from_millis(250);
/// Values that a bucket's requests are spread over at most.
const MOST_VALUES: u64 = 64;

/// A service's latency from its own histogram.
#[derive(Debug)]
pub struct OwnHistogram {
    scraper: Scraper,
    runtime: Runtime,
    last: Option<(u64, Counts)>,
    edges: Vec<u64>,
}

impl OwnHistogram {
    /// Nothing is read yet.
    ///
    /// # Errors
    /// If there is no way to wait for an answer.
    pub fn new(page: Page) -> Result<OwnHistogram> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| EffectError::System("start a runtime", error))?;
        Ok(OwnHistogram { scraper: Scraper::new(page), runtime, last: None, edges: Vec::new() })
    }
}

impl Source for OwnHistogram {
    fn measure(&self) -> Measure {
        Measure::Histogram
    }

    fn every(&self) -> Duration {
        EVERY
    }

    fn look(&mut self) -> Result<Option<Slice>> {
        let counts = self.runtime.block_on(self.scraper.counts())?;
        let to_ns = clock::now().0;
        self.edges = counts.cumulative().iter().map(|(bound, _)| *bound).filter(|bound| *bound != u64::MAX).collect();
        let before = self.last.replace((to_ns, counts.clone()));
        let since = before.and_then(|(from_ns, before)| Some((from_ns, counts.since(&before)?)));
        Ok(since.map(|(from_ns, counts)| Slice { from_ns, to_ns, cells: spread(counts.cumulative()) }))
    }

    fn edges(&self) -> Vec<u64> {
        self.edges.clone()
    }
}

/// The requests of each bucket evenly over it, as Prometheus takes them to be; those beyond the last bound just beyond it.
fn spread(cumulative: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut cells, mut lower, mut below) = (Vec::new(), 0, 0);
    for &(bound, upto) in cumulative {
        let count = upto - below;
        if bound == u64::MAX {
            cells.extend((count > 0).then_some((lower + 1, count)));
            continue;
        }
        let values = count.min(MOST_VALUES);
        for value in 0..values {
            let middle = u128::from(bound - lower) * u128::from(2 * value + 1) / u128::from(2 * values);
            // Above the lower bound, and so in the bucket.
            let ns = lower + (middle as u64).max(1);
            cells.push((ns, count * (value + 1) / values - count * value / values));
        }
        (lower, below) = (bound, upto);
    }
    cells
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_lie_evenly_in_their_buckets() {
        assert_eq!(spread(&[(100, 2), (200, 2), (400, 3), (u64::MAX, 8)]), [(25, 1), (75, 1), (300, 1), (401, 5)]);
        assert_eq!(spread(&[]), []);
        assert_eq!(spread(&[(1, 3), (u64::MAX, 3)]).len(), 3);
    }

    proptest! {
        #[test]
        fn each_request_stays_in_its_bucket(widths in prop::collection::vec((1u64..1_000_000, 0u64..1_000), 1..20), beyond in 0u64..50) {
            let (mut bound, mut upto, mut cumulative) = (0, 0, Vec::new());
            for (width, count) in widths {
                (bound, upto) = (bound + width, upto + count);
                cumulative.push((bound, upto));
            }
            cumulative.push((u64::MAX, upto + beyond));
            let cells = spread(&cumulative);
            for (bound, upto) in cumulative {
                let found: u64 = cells.iter().filter(|(ns, _)| *ns <= bound).map(|(_, count)| count).sum();
                prop_assert_eq!(found, upto, "up to {}", bound);
            }
        }
    }
}
