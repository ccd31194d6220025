//! The agent's OpenMetrics text as an OTLP request (opentelemetry.io, "OTLP Specification", JSON encoding of
//! `ExportMetricsServiceRequest`). A counter is a cumulative monotonic sum, all else a gauge.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// AGGREGATION_TEMPORALITY_CUMULATIVE.
const CUMULATIVE: u8 = 2;

/// What the metrics are of.
pub struct Source {
    /// The machine's name.
    pub host: String,
    /// The agent's version.
    pub version: String,
    /// Since 1970: when these were read.
    pub now: Duration,
}

/// Since when each counter counts, as far as is known: since it was read first, or since the reading before the one that it is new in,
/// or smaller in.
#[derive(Default)]
pub struct Starts {
    last_read: Option<Duration>,
    /// Of the last reading, by name and attributes: the start, and the value.
    last: HashMap<String, (Duration, f64)>,
    /// Of the present one.
    present: HashMap<String, (Duration, f64)>,
}

impl Starts {
    fn of(&mut self, counter: String, value: f64, now: Duration) -> Duration {
        let known = self.last.get(&counter).filter(|(_, last)| *last <= value);
        // The clock may have been set back.
        let start = known.map_or(self.last_read.unwrap_or(now), |(start, _)| *start).min(now);
        self.present.insert(counter, (start, value));
        start
    }

    fn has_read(&mut self, now: Duration) {
        self.last_read = Some(now);
        self.last = std::mem::take(&mut self.present);
    }
}

#[derive(Default)]
struct Metric<'a> {
    name: &'a str,
    help: &'a str,
    unit: &'a str,
    is_counter: bool,
    points: Vec<Value>,
}

/// The body of a request.
pub fn request(text: &str, from: &Source, starts: &mut Starts) -> Value {
    let metrics: Vec<Value> =
        metrics(text, from, starts).into_iter().filter(|metric| !metric.points.is_empty()).map(Metric::json).collect();
    starts.has_read(from.now);
    let scope = json!({ "name": "quell", "version": from.version });
    let resource = [("service.name", "quell"), ("service.version", &from.version), ("host.name", &from.host)];
    let resource: Vec<Value> = resource.into_iter().map(|(key, value)| attribute(key, value)).collect();
    json!({ "resourceMetrics": [{
        "resource": { "attributes": resource },
        "scopeMetrics": [{ "scope": scope, "metrics": metrics }],
    }] })
}

fn metrics<'a>(text: &'a str, from: &Source, starts: &mut Starts) -> Vec<Metric<'a>> {
    let mut all: Vec<Metric<'a>> = Vec::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let Some((kind, (name, rest))) =
                comment.split_once(' ').and_then(|(kind, rest)| Some((kind, rest.split_once(' ')?)))
            else {
                continue;
            };
            if all.last().is_none_or(|last| last.name != name) {
                all.push(Metric { name, ..Metric::default() });
            }
            let Some(metric) = all.last_mut() else { continue };
            match kind {
                "HELP" => metric.help = rest.trim_end_matches('.'),
                "UNIT" => metric.unit = rest,
                "TYPE" => metric.is_counter = rest == "counter",
                _ => {}
            }
        } else if let (Some(metric), Some((attributes, value))) = (all.last_mut(), sample(line)) {
            let counter = metric.is_counter.then(|| format!("{} {}", metric.name, Value::Array(attributes.clone())));
            let start = counter.map(|counter| starts.of(counter, value, from.now));
            metric.points.push(point(attributes, value, start, from));
        }
    }
    all
}

impl Metric<'_> {
    fn json(self) -> Value {
        let unit = match self.unit {
            "seconds" => "s",
            "bytes" => "By",
            other => other,
        };
        let mut metric = Map::from_iter([
            ("name".to_owned(), json!(self.name)),
            ("description".to_owned(), json!(self.help)),
            ("unit".to_owned(), json!(unit)),
        ]);
        if self.is_counter {
            let sum = json!({ "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": self.points });
            metric.insert("sum".to_owned(), sum);
        } else {
            metric.insert("gauge".to_owned(), json!({ "dataPoints": self.points }));
        }
        Value::Object(metric)
    }
}

fn point(attributes: Vec<Value>, value: f64, start: Option<Duration>, from: &Source) -> Value {
    let mut point = json!({
        "attributes": attributes,
        "timeUnixNano": from.now.as_nanos().to_string(),
        "asDouble": value,
    });
    if let Some(start) = start {
        point["startTimeUnixNano"] = json!(start.as_nanos().to_string());
    }
    point
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// The labels and the value of `name{label="text",…} value`; no number, no sample.
fn sample(line: &str) -> Option<(Vec<Value>, f64)> {
    let name = line.find(['{', ' '])?;
    let (mut labels, mut rest) = (Vec::new(), &line[name..]);
    if let Some(after) = rest.strip_prefix('{') {
        rest = after;
        while let Some((key, after)) = rest.split_once("=\"").filter(|_| !rest.starts_with('}')) {
            let (text, after) = unquoted(after)?;
            labels.push(attribute(key.trim_start_matches(','), &text));
            rest = after;
        }
        rest = rest.strip_prefix('}')?;
    }
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    value.is_finite().then_some((labels, value))
}

/// A label's text, up to its closing quote, and what follows that.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut unquoted, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((unquoted, &text[at + 1..])),
            '\\' => unquoted.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => unquoted.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP quell_a_seconds Time of a.\n# TYPE quell_a_seconds counter\n# UNIT quell_a_seconds seconds\n\
        quell_a_seconds_total{workload=\"web, \\\"} 9\\\\\",by=\"x\"} 1.5\nquell_a_seconds_total{workload=\"b\"} NaN\n\
        # HELP quell_b Of b.\n# TYPE quell_b gauge\nquell_b 2\n# HELP quell_none None.\n# TYPE quell_none gauge\n# EOF\n";

    #[test]
    fn counters_are_sums_and_the_rest_gauges() {
        let source = |now| Source { host: "h".into(), version: "1".into(), now };
        let mut starts = Starts::default();
        request(TEXT, &source(Duration::from_secs(1)), &mut starts);
        let body = request(TEXT, &source(Duration::from_nanos(2_000_000_003)), &mut starts);
        let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        assert_eq!(metrics.as_array().unwrap().len(), 2, "one without a sample is none: {metrics}");
        let (a, b) = (&metrics[0], &metrics[1]);
        assert_eq!(
            (&a["name"], &a["unit"], &a["description"]),
            (&json!("quell_a_seconds"), &json!("s"), &json!("Time of a"))
        );
        let expected = json!([{
            "attributes": [attribute("workload", "web, \"} 9\\"), attribute("by", "x")],
            "timeUnixNano": "2000000003", "startTimeUnixNano": "1000000000", "asDouble": 1.5,
        }]);
        assert_eq!(a["sum"], json!({ "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": expected }));
        assert_eq!(
            b["gauge"]["dataPoints"],
            json!([{ "attributes": [], "timeUnixNano": "2000000003", "asDouble": 2.0 }])
        );
        let host = &body["resourceMetrics"][0]["resource"]["attributes"][2];
        assert_eq!(host, &attribute("host.name", "h"));
    }

    #[test]
    fn a_counter_that_is_new_or_smaller_began_after_the_reading_before() {
        let mut starts = Starts::default();
        let mut start = |seconds, values: &[(&str, f64)]| {
            let now = Duration::from_secs(seconds);
            let found = values
                .iter()
                .map(|(name, value)| starts.of((*name).to_owned(), *value, now).as_secs())
                .collect::<Vec<_>>();
            starts.has_read(now);
            found
        };
        assert_eq!(start(10, &[("a", 5.0)]), [10]);
        assert_eq!(start(20, &[("a", 6.0), ("b", 1.0)]), [10, 10]);
        assert_eq!(start(30, &[("a", 2.0), ("b", 1.0)]), [20, 10], "a was reset");
        assert_eq!(start(40, &[("a", 3.0)]), [20]);
    }
}
