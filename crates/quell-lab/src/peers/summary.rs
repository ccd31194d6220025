//! From the cells of all seeds to rows.

use serde::Serialize;

use super::{CellResult, Peer, Scene, Served};

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

/// A row of the table: measurements of one server's clients.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The peer.
    pub peer: Peer,
    /// Number of CPUs.
    pub cpus: u32,
    /// The server.
    pub server: &'static str,
    /// Number of seeds.
    pub seeds: usize,
    /// Median latency, ns.
    pub p50_ns: Spread,
    /// 99th percentile, ns.
    pub p99_ns: Spread,
    /// 99.9th percentile, ns.
    pub p999_ns: Spread,
    /// Answers per second.
    pub served_per_s: Spread,
    /// The work of all that runs beside the servers, blocks per second.
    pub work_per_s: Option<Spread>,
    /// The generator's own lateness, 99th percentile, ns.
    pub lateness_p99_ns: Spread,
}

/// The rows of `peer` over the `results` of its seeds, one a server; none if there are none.
#[must_use]
pub fn summarise(scene: &Scene, peer: &Peer, cpus: u32, results: &[CellResult]) -> Vec<Summary> {
    let row = |(at, server): (usize, &super::Server)| {
        let seen = || results.iter().filter_map(move |result| result.servers.get(at));
        let spread = |value: fn(&Served) -> u64| Spread::of(seen().map(|served| value(served) as f64));
        let with_work = results.iter().filter(|result| !result.blocks_per_s.is_empty());
        Some(Summary {
            peer: *peer,
            cpus,
            server: server.name,
            seeds: results.len(),
            p50_ns: spread(|served| served.p50_ns)?,
            p99_ns: spread(|served| served.p99_ns)?,
            p999_ns: spread(|served| served.p999_ns)?,
            served_per_s: Spread::of(seen().map(|served| served.served_per_s))?,
            work_per_s: Spread::of(with_work.map(CellResult::work_per_s)),
            lateness_p99_ns: spread(|served| served.lateness_p99_ns)?,
        })
    };
    scene.servers.iter().enumerate().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::PEERS;

    #[test]
    fn a_row_has_median_and_extremes() {
        let cell = |p99_ns, work: Option<f64>| {
            let (latencies, lateness_p99_ns) = (Vec::new(), 1);
            let served = Served { p50_ns: 1, p99_ns, p999_ns: 9, served_per_s: 1.0, lateness_p99_ns, latencies };
            CellResult { servers: vec![served], blocks_per_s: work.into_iter().collect() }
        };
        let scene = Scene::find("spin").unwrap();
        let row = summarise(scene, &PEERS[0], 2, &[cell(5, None), cell(3, None), cell(4, None)]).remove(0);
        assert_eq!(row.p99_ns, Spread { median: 4.0, min: 3.0, max: 5.0 });
        assert_eq!((row.server, row.work_per_s), ("server", None));
        let row = summarise(scene, &PEERS[1], 2, &[cell(5, Some(8.0)), cell(3, Some(6.0))]).remove(0);
        assert_eq!(row.work_per_s, Some(Spread { median: 6.0, min: 6.0, max: 8.0 }));
        assert!(summarise(scene, &PEERS[0], 2, &[]).is_empty());
    }
}
