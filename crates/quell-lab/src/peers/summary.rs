//! From the cells of all seeds to one row.

use serde::Serialize;

use super::{CellResult, Peer};

/// Median, smallest and largest of the seeds' values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median; of an even number the lower one of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Some(Self { median: values[values.len().checked_sub(1)? / 2], min: values[0], max: *values.last()? })
    }
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Whose row it is.
    pub peer: Peer,
    /// On how many CPUs.
    pub cpus: u32,
    /// Over how many seeds.
    pub seeds: usize,
    /// Median latency, ns.
    pub p50_ns: Spread,
    /// 99th percentile, ns.
    pub p99_ns: Spread,
    /// 99.9th percentile, ns.
    pub p999_ns: Spread,
    /// The antagonist's blocks per second.
    pub antagonist_blocks_per_s: Option<Spread>,
    /// The generator's own lateness, 99th percentile, ns.
    pub lateness_p99_ns: Spread,
}

/// The row of `peer` over the `results` of its seeds; `None` if there are none.
#[must_use]
pub fn summarise(peer: &Peer, cpus: u32, results: &[CellResult]) -> Option<Summary> {
    let spread = |value: fn(&CellResult) -> u64| Spread::of(results.iter().map(|result| value(result) as f64));
    Some(Summary {
        peer: *peer,
        cpus,
        seeds: results.len(),
        p50_ns: spread(|result| result.p50_ns)?,
        p99_ns: spread(|result| result.p99_ns)?,
        p999_ns: spread(|result| result.p999_ns)?,
        antagonist_blocks_per_s: Spread::of(results.iter().filter_map(|result| result.antagonist_blocks_per_s)),
        lateness_p99_ns: spread(|result| result.lateness_p99_ns)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_median_and_extremes() {
        let cell = |p99_ns, work| CellResult {
            p50_ns: 1,
            p99_ns,
            p999_ns: 9,
            served_per_s: 1.0,
            lateness_p99_ns: 1,
            antagonist_blocks_per_s: work,
            latencies: Vec::new(),
        };
        let row = summarise(&super::super::PEERS[0], 2, &[cell(5, None), cell(3, None), cell(4, None)]).unwrap();
        assert_eq!(row.p99_ns, Spread { median: 4.0, min: 3.0, max: 5.0 });
        assert_eq!(row.antagonist_blocks_per_s, None);
        let row = summarise(&super::super::PEERS[1], 2, &[cell(5, Some(8.0)), cell(3, Some(6.0))]).unwrap();
        assert_eq!(row.antagonist_blocks_per_s, Some(Spread { median: 6.0, min: 6.0, max: 8.0 }));
        assert!(summarise(&super::super::PEERS[0], 2, &[]).is_none());
    }
}
