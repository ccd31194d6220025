//! Measurements of one cell.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Measurements of one cell, in the order of the scene's programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// Each server.
    pub servers: Vec<Served>,
    /// The work of each hog while latencies were measured.
    pub blocks_per_s: Vec<f64>,
}

/// Measurements of one server's clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// Median latency from the intended send time.
    pub p50_ns: u64,
    /// Its 99th percentile.
    pub p99_ns: u64,
    /// Its 99.9th percentile.
    pub p999_ns: u64,
    /// Answers per second.
    pub served_per_s: f64,
    /// Lateness of the generator's own sending, 99th percentile.
    pub lateness_p99_ns: u64,
    /// All latencies: nanoseconds, and the number of requests with this latency.
    pub latencies: Vec<(u64, u64)>,
}

impl CellResult {
    /// The work of all hogs together.
    #[must_use]
    pub fn work_per_s(&self) -> f64 {
        self.blocks_per_s.iter().sum()
    }
}

#[derive(Deserialize)]
struct Load {
    started_ns: u64,
    measured_ns: u64,
    served_per_s: f64,
    latency: Distribution,
    lateness: Distribution,
}

#[derive(Deserialize)]
struct Distribution {
    quantiles: Vec<Quantile>,
    histogram: Vec<(u64, u64)>,
}

#[derive(Deserialize)]
struct Quantile {
    q: f64,
    ns: u64,
}

impl Distribution {
    fn quantiles(&self) -> BTreeMap<u32, u64> {
        self.quantiles.iter().map(|quantile| ((quantile.q * 1000.0).round() as u32, quantile.ns)).collect()
    }
}

#[derive(Deserialize)]
struct Hog {
    timeline: Vec<Sample>,
}

#[derive(Deserialize)]
struct Sample {
    at_ns: u64,
    blocks: u64,
}

impl Hog {
    /// Blocks per second between two times; `None` if it ended before. One that was kept from starting had done none.
    fn rate(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        let not_begun = Sample { at_ns: from_ns, blocks: 0 };
        let first = self.timeline.iter().rev().find(|sample| sample.at_ns <= from_ns).unwrap_or(&not_begun);
        let last = self.timeline.iter().find(|sample| sample.at_ns >= to_ns)?;
        Some((last.blocks - first.blocks) as f64 * 1e9 / (last.at_ns - first.at_ns) as f64)
    }
}

/// Reads the script's output: the hogs' reports and the loads'.
pub(super) fn read(printed: &str) -> std::result::Result<CellResult, String> {
    let of = |kind| printed.lines().filter_map(move |line| line.strip_prefix(kind));
    let parsed = |what: &str, error: serde_json::Error| format!("the {what}'s report: {error}");
    let loads: Vec<Load> = of("load ")
        .map(|text| serde_json::from_str(text).map_err(|error| parsed("load", error)))
        .collect::<std::result::Result<_, _>>()?;
    let hogs: Vec<Hog> = of("hog ")
        .map(|text| serde_json::from_str(text).map_err(|error| parsed("hog", error)))
        .collect::<std::result::Result<_, _>>()?;
    let first = loads.first().ok_or("the load printed no report")?;
    let end_ns = first.started_ns + first.measured_ns;
    let rate = |hog: Hog| hog.rate(first.started_ns, end_ns).ok_or("a hog did not run as long as the load");
    let blocks_per_s = hogs.into_iter().map(rate).collect::<std::result::Result<_, _>>()?;
    let servers = loads.into_iter().map(Served::try_from).collect::<std::result::Result<_, _>>()?;
    Ok(CellResult { servers, blocks_per_s })
}

impl TryFrom<Load> for Served {
    type Error = String;

    fn try_from(load: Load) -> std::result::Result<Served, String> {
        let (latency, lateness) = (load.latency.quantiles(), load.lateness.quantiles());
        let quantile = |of: &BTreeMap<u32, u64>, permille| of.get(&permille).copied().ok_or("a quantile is missing");
        Ok(Served {
            p50_ns: quantile(&latency, 500)?,
            p99_ns: quantile(&latency, 990)?,
            p999_ns: quantile(&latency, 999)?,
            served_per_s: load.served_per_s,
            lateness_p99_ns: quantile(&lateness, 990)?,
            latencies: load.latency.histogram,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: &str = r#"load {"started_ns":1000000000,"measured_ns":2000000000,"served_per_s":10.0,
        "latency":{"quantiles":[{"q":0.5,"ns":1},{"q":0.99,"ns":2},{"q":0.999,"ns":3}],"histogram":[[1,7]]},
        "lateness":{"quantiles":[{"q":0.99,"ns":4}],"histogram":[]}}"#;

    fn hog(last_ns: u64) -> String {
        format!(
            r#"hog {{"timeline":[{{"at_ns":500000000,"blocks":0}},{{"at_ns":1000000000,"blocks":50}},
            {{"at_ns":2000000000,"blocks":70}},{{"at_ns":{last_ns},"blocks":150}}]}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn reports_are_read_and_the_work_is_that_of_the_measured_time() {
        let load = LOAD.replace('\n', "");
        let result = read(&format!("noise\n{}\n{load}\n", hog(3_000_000_000))).unwrap();
        let server = Served {
            p50_ns: 1,
            p99_ns: 2,
            p999_ns: 3,
            served_per_s: 10.0,
            lateness_p99_ns: 4,
            latencies: vec![(1, 7)],
        };
        assert_eq!(result, CellResult { servers: vec![server.clone()], blocks_per_s: vec![50.0] });
        let two = read(&format!("{load}\n{load}\n")).unwrap();
        assert_eq!(two, CellResult { servers: vec![server.clone(), server], blocks_per_s: Vec::new() });
    }

    #[test]
    fn a_hog_that_could_not_start_in_time_is_counted_from_the_beginning() {
        let load = LOAD.replace('\n', "");
        let late = r#"hog {"timeline":[{"at_ns":2000000000,"blocks":0},{"at_ns":3000000000,"blocks":20}]}"#;
        assert_eq!(read(&format!("{late}\n{load}\n")).unwrap().blocks_per_s, [10.0]);
    }

    #[test]
    fn a_hog_that_ends_early_is_an_error() {
        let load = LOAD.replace('\n', "");
        assert!(read(&format!("{}\n{load}\n", hog(2_500_000_000))).unwrap_err().contains("as long as"));
        assert!(read("").is_err());
    }
}
