//! From the raw record to the report: a pure function.

use quell_report::stats::{Blocks, Histogram};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::record::{REFUSED, Record, UNANSWERED};
use super::spec::LoadSpec;

/// The quantiles of every report, ascending.
pub const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// Length of a window of the timeline, ns.
pub const WINDOW_NS: u64 = 100_000_000;
/// Upper bound on the blocks for the confidence intervals.
const MOST_BLOCKS: u64 = 200;
/// Samples drawn for the confidence intervals.
const DRAWS: usize = 300;
/// Served below this share of the requested rate: the server did not keep up.
const KEPT_UP: f64 = 0.95;

/// One quantile with its confidence interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// The quantile, 0 to 1.
    pub q: f64,
    /// Its value, ns.
    pub ns: u64,
    /// Lower and upper end of the 95 % confidence interval, ns (block bootstrap, [`quell_report::stats`]); absent for
    /// fewer than ten blocks of 100 ms.
    pub interval_ns: Option<(u64, u64)>,
}

/// A distribution of durations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// [`QUANTILES`].
    pub quantiles: Vec<Quantile>,
    /// The mean, ns.
    pub mean_ns: f64,
    /// The largest, ns.
    pub max_ns: u64,
    /// All of it.
    pub histogram: Histogram,
}

/// 100 ms of the timeline. Requests belong to the window in which they were to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Its beginning, ns after the measured part's.
    pub start_ns: u64,
    /// Good answers to its requests.
    pub answered: u64,
    /// Median latency, ns.
    pub p50_ns: u64,
    /// 99 % quantile, ns.
    pub p99_ns: u64,
    /// Largest latency, ns.
    pub max_ns: u64,
}

/// Requests of the measured part by their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Their time came.
    pub due: u64,
    /// Well answered; the latency is theirs.
    pub answered: u64,
    /// Answered with an error, or with an answer that does not suit the request.
    pub refused: u64,
    /// Not answered by the end of the drain.
    pub unanswered: u64,
    /// `get`s that found their key.
    pub hits: u64,
    /// `get`s that found nothing.
    pub misses: u64,
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Quell's version.
    #[serde(default)]
    pub version: String,
    /// The server's name and version, as it says.
    #[serde(default)]
    pub server: String,
    /// The request.
    pub spec: LoadSpec,
    /// Beginning of the measured part, CLOCK_MONOTONIC ns: comparable with an antagonist's timeline.
    pub started_ns: u64,
    /// Length of the measured part, ns; shorter than asked when the run was ended early.
    pub measured_ns: u64,
    /// Requests per second that came due in the measured part.
    pub offered_per_s: f64,
    /// Good answers per second that arrived within the measured part.
    pub served_per_s: f64,
    /// Ends of requests.
    pub counts: Counts,
    /// Connections that the server closed or that failed.
    pub closed_connections: u64,
    /// Number of new connections in place of those that the server ended in between (HTTP).
    #[serde(default)]
    pub reconnects: u64,
    /// Keys that were deleted from the server at the end; absent where they are to be kept.
    #[serde(default)]
    pub keys_deleted: Option<u64>,
    /// The reason why keys may be left on the server.
    #[serde(default)]
    pub keys_left: Option<String>,
    /// Latency from the intended send time to the answer.
    pub latency: Distribution,
    /// The generator's own lateness: from the intended send time to its attempt to send.
    pub lateness: Distribution,
    /// The measured part in windows of 100 ms.
    pub timeline: Vec<Window>,
    /// Did the server fall behind the rate?
    pub saturated: bool,
    /// CPUs that the generator's thread used, 0 to 1.
    pub generator_cpus: f64,
    /// Share of the machine's CPU time (0 to 1) that the hypervisor took during the run; absent where unreadable.
    pub stolen: Option<f64>,
}

impl LoadReport {
    /// Works a record out. `stolen` comes from [`crate::steal`].
    #[must_use]
    pub fn new(spec: LoadSpec, record: &Record, stolen: Option<f64>) -> Self {
        let begin = spec.warmup_ns.min(record.end_ns);
        let measured_ns = record.end_ns - begin;
        let seconds = (measured_ns as f64 / 1e9).max(1e-9);
        let slots = &record.schedule.slots[..record.due];
        let first = record.schedule.warmup.min(record.due);

        let mut counts =
            Counts { due: (record.due - first) as u64, hits: record.hits, misses: record.misses, ..Counts::default() };
        for latency in &record.latency_ns[first..record.due] {
            match *latency {
                UNANSWERED => counts.unanswered += 1,
                REFUSED => counts.refused += 1,
                _ => counts.answered += 1,
            }
        }
        let served = slots
            .iter()
            .zip(&record.latency_ns)
            .filter(|(_, latency)| **latency < REFUSED)
            .filter(|(slot, latency)| (begin..record.end_ns).contains(&(slot.at_ns + **latency)))
            .count();

        let measured = |values: &'_ [u64]| -> Vec<(u64, u64)> {
            (first..record.due)
                .filter(|index| values[*index] < REFUSED)
                .map(|index| (slots[index].at_ns.saturating_sub(begin), values[index]))
                .collect()
        };
        let latencies = measured(&record.latency_ns);
        let offered_per_s = counts.due as f64 / seconds;
        let served_per_s = served as f64 / seconds;
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            server: String::new(),
            reconnects: record.reconnects,
            keys_deleted: None,
            keys_left: None,
            started_ns: record.start_ns + begin,
            measured_ns,
            offered_per_s,
            served_per_s,
            saturated: counts.due > 0
                && (served_per_s < KEPT_UP * offered_per_s
                    || counts.unanswered as f64 > (1.0 - KEPT_UP) * counts.due as f64),
            counts,
            closed_connections: record.closed_connections as u64,
            timeline: timeline(&latencies),
            latency: distribution(&latencies, measured_ns, spec.seed),
            lateness: distribution(&measured(&record.lateness_ns), measured_ns, spec.seed),
            generator_cpus: record.cpu_ns as f64 / record.elapsed_ns.max(1) as f64,
            stolen,
            spec,
        }
    }
}

impl Distribution {
    /// The value at one of [`QUANTILES`] (or any other), ns.
    #[must_use]
    pub fn at(&self, q: f64) -> u64 {
        self.histogram.quantile(q)
    }
}

/// Values in the order of their times. Pairs are (ns after the measured part's beginning, value in ns).
fn distribution(values: &[(u64, u64)], measured_ns: u64, seed: u64) -> Distribution {
    let histogram: Histogram = values.iter().map(|(_, ns)| *ns).collect();
    let windows_per_block = measured_ns.div_ceil(WINDOW_NS).div_ceil(MOST_BLOCKS).max(1);
    let mut blocks = Blocks::default();
    for_each_window(values, windows_per_block * WINDOW_NS, |_, block| {
        blocks.push(block.cells());
    });
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let intervals = blocks.intervals(&QUANTILES, DRAWS, |bound| rng.random_range(0..bound));
    let quantiles = QUANTILES
        .iter()
        .enumerate()
        .map(|(index, q)| {
            let ns = histogram.quantile(*q);
            let interval_ns = intervals.as_ref().map(|all| {
                let (low, high) = all[index];
                (low.min(ns), high.max(ns))
            });
            Quantile { q: *q, ns, interval_ns }
        })
        .collect();
    Distribution { quantiles, mean_ns: histogram.mean(), max_ns: histogram.max(), histogram }
}

fn timeline(values: &[(u64, u64)]) -> Vec<Window> {
    let mut windows = Vec::new();
    for_each_window(values, WINDOW_NS, |number, window| {
        windows.push(Window {
            start_ns: number * WINDOW_NS,
            answered: window.count(),
            p50_ns: window.quantile(0.5),
            p99_ns: window.quantile(0.99),
            max_ns: window.max(),
        });
    });
    windows
}

/// Every window that has values, with its number. One histogram is used for all of them.
fn for_each_window(values: &[(u64, u64)], length_ns: u64, mut visit: impl FnMut(u64, &Histogram)) {
    let mut window = Histogram::default();
    for chunk in values.chunk_by(|a, b| a.0 / length_ns == b.0 / length_ns) {
        window.clear();
        chunk.iter().for_each(|(_, ns)| window.record(*ns));
        visit(chunk[0].0 / length_ns, &window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::protocol::Answer;
    use crate::load::schedule::{Operation, Schedule};

    /// A run of 10 s in which every request takes the time `latency` (`None`: no answer).
    fn run(latency: impl Fn(u64) -> Option<u64>) -> LoadReport {
        let spec = LoadSpec { rate: 1_000.0, ..LoadSpec::default() };
        let mut record = Record::new(Schedule::new(&spec));
        record.end_ns = spec.warmup_ns + spec.duration_ns;
        record.start_ns = 5;
        record.elapsed_ns = record.end_ns;
        record.cpu_ns = record.elapsed_ns / 4;
        record.due = record.schedule.slots.len();
        for index in 0..record.due {
            let slot = record.schedule.slots[index];
            record.lateness_ns[index] = 1_000;
            if let Some(ns) = latency(slot.at_ns) {
                let answer = match slot.operation() {
                    Operation::Get => Answer::Hit { bytes: 100 },
                    Operation::Set => Answer::Stored,
                };
                record.answer(index, answer, slot.at_ns + ns);
            }
        }
        LoadReport::new(spec, &record, Some(0.01))
    }

    #[test]
    fn a_calm_run_has_no_caveat() {
        let report = run(|_| Some(100_000));
        assert!(report.caveats().is_empty(), "{:?}", report.caveats());
        assert!(!report.saturated);
        assert_eq!(report.counts.answered, report.counts.due);
        assert_eq!(report.started_ns, 1_000_000_005);
        assert!((report.served_per_s / report.offered_per_s - 1.0).abs() < 0.01);
        assert_eq!(report.generator_cpus, 0.25);
        let timed: u64 = report.timeline.iter().map(|w| w.answered).sum();
        assert_eq!(timed, report.counts.answered);
        for quantile in &report.latency.quantiles {
            assert!((99_000..101_000).contains(&quantile.ns));
            let (low, high) = quantile.interval_ns.unwrap();
            assert!(low <= quantile.ns && quantile.ns <= high);
        }
    }

    #[test]
    fn a_stall_stands_in_its_window_and_in_the_tail() {
        // Nothing is answered between 6.0 and 6.3 s of the schedule, that is 5.0 to 5.3 s of the measured part.
        let report = run(|at| {
            let end = 6_300_000_000;
            Some(if (6_000_000_000..end).contains(&at) { end - at } else { 100_000 })
        });
        assert!(report.latency.at(0.5) < 200_000);
        assert!(report.latency.at(0.99) > 50_000_000);
        let worst = report.timeline.iter().max_by_key(|w| w.p99_ns).unwrap();
        assert_eq!(worst.start_ns, 5_000_000_000);
        assert!(!report.saturated, "it caught up");
    }

    #[test]
    fn a_growing_queue_is_called_saturation() {
        let report = run(|at| Some(at / 4));
        assert!(report.saturated);
        assert!(report.caveats()[0].contains("did not keep up"), "{:?}", report.caveats());
        let silent = run(|at| (at < 9_000_000_000).then_some(1_000));
        assert!(silent.saturated && silent.counts.unanswered > 1_000);
    }

    #[test]
    fn json_brings_the_report_back() {
        let report = run(|at| Some(50_000 + at % 1_000_003));
        let text = serde_json::to_string(&report).unwrap();
        let back: LoadReport = serde_json::from_str(&text).unwrap();
        assert_eq!(back.latency.quantiles, report.latency.quantiles);
        assert_eq!(back.latency.at(0.99), report.latency.at(0.99));
        assert_eq!(back.timeline, report.timeline);
        assert_eq!(back.spec, report.spec);
    }

    #[test]
    fn nothing_at_all_is_said() {
        let spec = LoadSpec::default();
        let mut record = Record::new(Schedule { slots: Vec::new(), warmup: 0 });
        record.end_ns = 11_000_000_000;
        let report = LoadReport::new(spec, &record, None);
        assert!(report.caveats()[0].contains("No request"));
        assert!(!report.saturated);
    }
}
