//! The text of a report: JSON with short names. Reading refuses whatever is not exactly a report.

use std::collections::{BTreeMap, BTreeSet};

use quell_model::Nanos;
use quell_model::cluster::Measure;
use serde::{Deserialize, Serialize};

use super::{Heavy, LONGEST, MOST, Reading, Report, Service};
use crate::ClusterError;

const VERSION: u32 = 1;
/// A node's clock may be ahead by this.
pub const AHEAD_MS: u64 = 30_000;
/// A report that is older says nothing: it is renewed every five minutes.
pub const STALE_MS: u64 = 6 * 60_000;
/// No number of a report is larger.
const LARGEST: f64 = 1e15;
/// Of latencies, µs: a day.
const LONGEST_US: f64 = 86_400e6;
/// Of what is said of a bad report, characters.
const LONGEST_REMARK: usize = 200;
/// Of windows, ms.
const LONGEST_WINDOW_MS: u64 = 3_600_000;

/// Of a pod: measured, predicted, bound.
type Times = (String, Option<f64>, Option<f64>, Option<f64>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    v: u32,
    node: String,
    at: u64,
    window: u64,
    /// By measure: value, exact.
    by: BTreeMap<Measure, (f64, bool)>,
    /// Pod, intensity, share.
    heavy: Vec<(String, Option<f64>, Option<f64>)>,
    /// Pod; microseconds: measured, predicted, bound.
    lc: Vec<Times>,
}

impl Report {
    /// Its text, of at most [`LONGEST`] bytes: what matters least is left out.
    ///
    /// # Errors
    /// If even the node's name and numbers are too long.
    pub fn text(&self) -> Result<String, ClusterError> {
        let mut short = self.clone();
        short.heaviest.truncate(MOST);
        short.services.truncate(MOST);
        loop {
            let text = serde_json::to_string(&Text::of(&short)).map_err(|error| self.odd(error.to_string()))?;
            if text.len() <= LONGEST {
                return Ok(text);
            }
            // The longer list first; both are in the order of their importance.
            let last = match short.heaviest.len() > short.services.len() {
                true => short.heaviest.pop().is_some(),
                false => short.services.pop().is_some() || short.heaviest.pop().is_some(),
            };
            if !last {
                return Err(self.odd(format!("its shortest text has {} bytes, {LONGEST} at most", text.len())));
            }
        }
    }

    /// Reads the report of a node at this time, in milliseconds since 1970.
    ///
    /// # Errors
    /// What is wrong with it, by name.
    pub fn parse(text: &str, node: &str, now_ms: u64) -> Result<Report, ClusterError> {
        // What a node wrote goes to terminals and logs.
        let bad = |why: String| ClusterError::Report {
            node: node.to_owned(),
            why: why.escape_debug().take(LONGEST_REMARK).collect(),
        };
        if text.len() > LONGEST {
            return Err(bad(format!("it has {} bytes, {LONGEST} at most", text.len())));
        }
        let text: Text = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        text.check(node, now_ms).map_err(bad)?;
        Ok(text.report())
    }

    fn odd(&self, why: String) -> ClusterError {
        ClusterError::Report { node: self.node.clone(), why }
    }
}

/// At most four digits: more would be noise, and bytes.
fn short(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(0.0)
}

fn micros(time: Nanos) -> f64 {
    short(time.0 as f64 / 1e3)
}

impl Text {
    fn of(report: &Report) -> Text {
        let by = report.by.iter().map(|reading| (reading.measure, (short(reading.value), reading.exact)));
        let heavy = report.heaviest.iter().map(|it| (it.pod.clone(), it.intensity.map(short), it.share.map(short)));
        let row =
            |it: &Service| (it.pod.clone(), it.measured.map(micros), it.predicted.map(micros), it.bound.map(micros));
        Text {
            v: VERSION,
            node: report.node.clone(),
            at: report.at_ms,
            window: report.window.0 / 1_000_000,
            by: by.collect(),
            heavy: heavy.collect(),
            lc: report.services.iter().map(row).collect(),
        }
    }

    fn check(&self, node: &str, now_ms: u64) -> Result<(), String> {
        if self.v != VERSION {
            return Err(format!("version {}, {VERSION} is known; run the same version of Quell everywhere", self.v));
        }
        if self.node != node {
            return Err(format!("it is of another node, {}", self.node));
        }
        if self.at > now_ms.saturating_add(AHEAD_MS) {
            return Err(format!("it is from {} s in the future; look at the clocks", (self.at - now_ms) / 1000));
        }
        if now_ms.saturating_sub(self.at) > STALE_MS {
            return Err(format!("it is {} s old", now_ms.saturating_sub(self.at) / 1000));
        }
        if self.window > LONGEST_WINDOW_MS {
            return Err(format!("its window is {} ms, {LONGEST_WINDOW_MS} at most", self.window));
        }
        if self.heavy.len() > MOST || self.lc.len() > MOST {
            return Err(format!("it has more than {MOST} workloads of a kind"));
        }
        let number = |name: &str, value: f64, most: f64| match (0.0..=most).contains(&value) {
            true => Ok(()),
            false => Err(format!("{name} is {value}, 0 to {most} may be")),
        };
        for (measure, (value, _)) in &self.by {
            number(measure.words(), *value, LARGEST)?;
        }
        for (pod, intensity, share) in &self.heavy {
            number(pod, intensity.unwrap_or(0.0), LARGEST)?;
            number(pod, share.unwrap_or(0.0), 1.0)?;
        }
        for (pod, measured, predicted, bound) in &self.lc {
            for time in [measured, predicted, bound] {
                number(pod, time.unwrap_or(0.0), LONGEST_US)?;
            }
        }
        for pods in [self.heavy.iter().map(|it| &it.0).collect::<Vec<_>>(), self.lc.iter().map(|it| &it.0).collect()] {
            if let Some(pod) = pods.iter().find(|pod| !is_pod(pod)) {
                return Err(format!("'{}' is no NAMESPACE/NAME", pod.escape_debug()));
            }
            if pods.iter().collect::<BTreeSet<_>>().len() < pods.len() {
                return Err("a workload is there twice".into());
            }
        }
        Ok(())
    }

    fn report(self) -> Report {
        let time = |micros: Option<f64>| micros.map(|micros| Nanos((micros * 1e3) as u64));
        Report {
            node: self.node,
            at_ms: self.at,
            window: Nanos(self.window.saturating_mul(1_000_000)),
            by: self.by.into_iter().map(|(measure, (value, exact))| Reading { measure, value, exact }).collect(),
            heaviest: self.heavy.into_iter().map(|(pod, intensity, share)| Heavy { pod, intensity, share }).collect(),
            services: self
                .lc
                .into_iter()
                .map(|(pod, measured, predicted, bound)| Service {
                    pod,
                    measured: time(measured),
                    predicted: time(predicted),
                    bound: time(bound),
                })
                .collect(),
        }
    }
}

/// Is this a namespace and a name as Kubernetes has them?
fn is_pod(text: &str) -> bool {
    let part = |part: &str, most: usize| {
        let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        !part.is_empty() && part.len() <= most && part.chars().all(is_of_name)
    };
    text.split_once('/').is_some_and(|(namespace, name)| part(namespace, 63) && part(name, 253))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn report() -> Report {
        let heavy = |at: usize| Heavy { pod: format!("batch/stream-{at}"), intensity: Some(1e6), share: Some(0.25) };
        let service = |at: usize| Service {
            pod: format!("shop/web-{at}"),
            measured: Some(Nanos(120_000)),
            predicted: None,
            bound: Some(Nanos(500_000)),
        };
        Report {
            node: "n1".into(),
            at_ms: NOW,
            window: Nanos::from_secs(10),
            by: vec![
                Reading { measure: Measure::Counters, value: 2.5e6, exact: true },
                Reading { measure: Measure::Sharing, value: 0.031, exact: false },
            ],
            heaviest: (0..2).map(heavy).collect(),
            services: (0..2).map(service).collect(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = report().text().unwrap();
        assert_eq!(Report::parse(&text, "n1", NOW + 1000).unwrap(), report(), "{text}");
    }

    #[test]
    fn a_long_report_is_shortened_from_its_ends() {
        let mut long = report();
        let name = "a".repeat(100);
        long.heaviest = (0..40).map(|at| Heavy { pod: format!("batch/{name}-{at}"), ..Heavy::default() }).collect();
        let text = long.text().unwrap();
        assert!(text.len() <= LONGEST);
        let read = Report::parse(&text, "n1", NOW).unwrap();
        assert!(read.heaviest.len() >= 4 && read.services.len() == 2, "{text}");
        assert_eq!(read.heaviest[..], long.heaviest[..read.heaviest.len()]);
        long.node = name.repeat(11);
        assert!(long.text().unwrap_err().to_string().contains("1023 at most"));
    }

    #[test]
    fn bad_input_is_refused_by_name() {
        let good = report().text().unwrap();
        let refused = |from: &str, to: &str, node: &str, now: u64| {
            let text = good.replacen(from, to, 1);
            assert!(text != good || from.is_empty(), "{from} is not in {good}");
            Report::parse(&text, node, now).unwrap_err().to_string()
        };
        for (from, to, word) in [
            ("2500000.0", "NaN", "expected value"),
            ("2500000.0", "-1.0", "0 to"),
            ("2500000.0", "1e16", "0 to"),
            ("2500000.0", "1e999", "out of range"),
            ("0.25", "1.5", "0 to 1"),
            ("120.0", "1e12", "0 to"),
            ("\"v\":1", "\"v\":2", "same version"),
            ("\"v\":1", "\"v\":1,\"more\":1", "unknown field"),
            ("\"sharing\"", "\"feeling\"", "unknown variant"),
            ("\"window\":10000", "\"window\":9999999999", "window"),
            ("batch/stream-1", "batch/stream-0", "twice"),
            ("batch/stream-1", "batch", "NAMESPACE/NAME"),
            ("batch/stream-1", "batch/<b>", "NAMESPACE/NAME"),
            ("\"by\":{", "\"by\":{{", "line 1"),
        ] {
            let said = refused(from, to, "n1", NOW);
            assert!(said.contains(word) && said.contains("n1"), "{from} → {to}: {said}");
        }
        assert!(refused("", "", "n2", NOW).contains("another node, n1"));
        assert!(refused("", "", "n1", NOW - AHEAD_MS - 1).contains("future"));
        assert!(refused("", "", "n1", NOW + STALE_MS + 1).contains("s old"));
        assert!(Report::parse(&" ".repeat(2000), "n1", NOW).unwrap_err().to_string().contains("2000 bytes"));
        assert!(Report::parse("", "n1", NOW).is_err());
    }
}
