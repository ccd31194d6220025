//! The text format of Prometheus, as far as one histogram needs it (prometheus.io, "Exposition formats"): lines
//! `NAME_bucket{le="0.1",…} COUNT`, all else is passed over. Made of one look at each line; whatever stands there, it ends.

use super::counts::Counts;

/// The buckets of a histogram, summed over all of its label sets; None: it is not there.
#[must_use]
pub fn buckets(text: &str, metric: &str) -> Option<Counts> {
    let unit = ns_per_unit(metric);
    let mut counts = Counts::default();
    for line in text.lines() {
        if let Some((bound, count)) = bucket_line(line.trim(), metric)
            && let Some(bound) = upper_bound(bound, unit)
            && let Some(count) = count.parse::<f64>().ok().filter(|count| *count >= 0.0 && count.is_finite())
        {
            counts.add(bound, count as u64);
        }
    }
    (!counts.is_empty()).then_some(counts)
}

/// Nanoseconds in the metric's unit: seconds, unless its name says another one.
fn ns_per_unit(metric: &str) -> f64 {
    let units = [("_milliseconds", 1e6), ("_microseconds", 1e3), ("_nanoseconds", 1.0)];
    units.iter().find(|(suffix, _)| metric.ends_with(suffix)).map_or(1e9, |(_, ns)| *ns)
}

/// The label `le` and the value of a line of this metric's buckets.
fn bucket_line<'a>(line: &'a str, metric: &str) -> Option<(&'a str, &'a str)> {
    let mut rest = line.strip_prefix(metric)?.strip_prefix("_bucket")?.trim_start().strip_prefix('{')?;
    let mut bound = None;
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((bound?, after.split_whitespace().next()?));
        }
        let (name, after) = rest.split_once('=')?;
        let text = after.trim_start().strip_prefix('"')?;
        let end = closing_quote(text)?;
        if name.trim() == "le" {
            bound = Some(&text[..end]);
        }
        rest = &text[end + 1..];
    }
}

/// Where a label's text ends: at the first quote that is not escaped.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// An upper bound in nanoseconds.
fn upper_bound(text: &str, unit: f64) -> Option<u64> {
    let bound: f64 = text.parse().ok()?;
    let finite = |bound: f64| ((bound * unit) as u64).min(u64::MAX - 1);
    (bound >= 0.0).then(|| if bound.is_finite() { finite(bound) } else { u64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: &str = r#"
# HELP http_request_duration_seconds Time of a request.
# TYPE http_request_duration_seconds histogram
http_request_duration_seconds_bucket{path="/a, \"}{",le="0.005"} 3
http_request_duration_seconds_bucket{path="/a, \"}{",le="0.1"} 1.0e+1 1700000000000
http_request_duration_seconds_bucket{le="+Inf",path="/a, \"}{"} 12 # {trace="x"} 0.3
http_request_duration_seconds_bucket{path="/b",le="0.005"} 1
http_request_duration_seconds_bucket{path="/b",le="0.1"} 1
http_request_duration_seconds_bucket{path="/b",le="+Inf"} 1
http_request_duration_seconds_sum 3.5
http_request_duration_seconds_count 13
http_request_duration_seconds_bucketed{le="1"} 99
"#;

    #[test]
    fn buckets_are_summed_over_label_sets_and_all_else_is_passed_over() {
        let counts = buckets(PAGE, "http_request_duration_seconds").unwrap();
        assert_eq!(counts.cumulative(), [(5_000_000, 4), (100_000_000, 11), (u64::MAX, 13)]);
        assert_eq!(buckets(PAGE, "http_request_duration"), None);
        assert_eq!(buckets("x_bucket{le=\"NaN\"} 1\nx_bucket{le=\"1\"} NaN\nx_bucket{le=\"1\"", "x"), None);
    }

    #[test]
    fn the_unit_is_in_the_metrics_name() {
        for (metric, bound) in [("x_milliseconds", 2_000_000), ("x_microseconds", 2_000), ("x", 2_000_000_000)] {
            let counts = buckets(&format!("{metric}_bucket{{le=\"2\"}} 1"), metric).unwrap();
            assert_eq!(counts.cumulative(), [(bound, 1)], "{metric}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r#"(x_bucket\{?(le|a)?=?"?[0-9e+\\Inf"}, ]{0,20}\n?){0,6}"#) {
            let _ = buckets(&text, "x");
        }
    }
}
