//! The text format of Prometheus, as far as one histogram needs it (prometheus.io, "Exposition formats"): lines
//! `NAME_bucket{le="0.1",…} COUNT`, all else is passed over. Made of one look at each line; whatever stands there, it ends.

use std::collections::BTreeMap;

use quell_model::foreign;

use super::counts::Counts;
use super::unit::Unit;

/// Labels with their texts, by name.
type Labels<'a> = Vec<(&'a str, &'a str)>;

/// No histogram could be made of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not there.
    Missing,
    /// Two of its label sets, as they stand there, have unlike bounds.
    Unlike(String, String),
}

/// The buckets of a histogram, summed over all of its label sets. A line that is no text is passed over: other metrics may have
/// labels of any bytes.
///
/// # Errors
/// If it is not there, or its label sets cannot be added.
pub fn buckets(page: &[u8], metric: &str, unit: Unit) -> Result<Counts, Fault> {
    let mut sets: BTreeMap<Labels<'_>, Counts> = BTreeMap::new();
    for line in page.split(|&byte| byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok()) {
        if let Some((labels, bound, count)) = bucket_line(line.trim(), metric)
            && let Some(bound) = upper_bound(bound, unit.nanoseconds())
            && let Some(count) = count.parse::<f64>().ok().filter(|count| *count >= 0.0 && count.is_finite())
        {
            sets.entry(labels).or_default().add(bound, count as u64);
        }
    }
    let mut sets = sets.into_iter();
    let (first, mut sum) = sets.next().ok_or(Fault::Missing)?;
    for (labels, counts) in sets {
        if !sum.add_all(&counts) {
            return Err(Fault::Unlike(described(&first, &sum), described(&labels, &counts)));
        }
    }
    Ok(sum)
}

/// A label set for people.
fn described(labels: &[(&str, &str)], counts: &Counts) -> String {
    let labels: Vec<String> = labels.iter().take(4).map(|(name, text)| format!("{name}=\"{text}\"")).collect();
    let labels: String = labels.join(",").chars().take(80).collect();
    format!("{{{}}} has {}", foreign::text(&labels), counts.bounds())
}

/// The labels by name without `le`, that label, and the value of a line of this metric's buckets.
fn bucket_line<'a>(line: &'a str, metric: &str) -> Option<(Labels<'a>, &'a str, &'a str)> {
    let mut rest = line.strip_prefix(metric)?.strip_prefix("_bucket")?.trim_start().strip_prefix('{')?;
    let (mut labels, mut bound) = (Vec::new(), None);
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            labels.sort_unstable();
            return Some((labels, bound?, after.split_whitespace().next()?));
        }
        let (name, after) = rest.split_once('=')?;
        let text = after.trim_start().strip_prefix('"')?;
        let end = closing_quote(text)?;
        match name.trim() {
            "le" => bound = Some(&text[..end]),
            name => labels.push((name, &text[..end])),
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
        let of = |page: &str, metric| buckets(page.as_bytes(), metric, Unit::Seconds);
        let counts = of(PAGE, "http_request_duration_seconds").unwrap();
        assert_eq!(counts.cumulative(), [(5_000_000, 4), (100_000_000, 11), (u64::MAX, 13)]);
        assert_eq!(of(PAGE, "http_request_duration"), Err(Fault::Missing));
        assert_eq!(of("x_bucket{le=\"NaN\"} 1\nx_bucket{le=\"1\"} NaN\nx_bucket{le=\"1\"", "x"), Err(Fault::Missing));
    }

    #[test]
    fn bounds_are_in_the_unit() {
        for (unit, bound) in [(Unit::Seconds, 2_000_000_000), (Unit::Milliseconds, 2_000_000), (Unit::Nanoseconds, 2)] {
            let counts = buckets(b"x_bucket{le=\"2\"} 1", "x", unit).unwrap();
            assert_eq!(counts.cumulative(), [(bound, 1)], "{unit:?}");
        }
    }

    #[test]
    fn label_sets_with_unlike_bounds_are_not_added_and_are_named() {
        let page =
            "x_bucket{r=\"a\",le=\"1\"} 1\nx_bucket{r=\"a\",le=\"+Inf\"} 1\nx_bucket{r=\"\x1b\",le=\"+Inf\"} 3\n";
        let Err(Fault::Unlike(one, other)) = buckets(page.as_bytes(), "x", Unit::Seconds) else {
            panic!("they differ")
        };
        assert_eq!((one.as_str(), other.as_str()), ("{r=\"\\x1b\"} has 1", "{r=\"a\"} has 2"));
    }

    #[test]
    fn a_line_that_is_no_text_is_passed_over() {
        let page = b"other{name=\"\xff\xfe\"} 1\nx_bucket{le=\"1\"} 2\nx_bucket{r=\"\xff\",le=\"1\"} 7\n".as_slice();
        assert_eq!(buckets(page, "x", Unit::Seconds).unwrap().cumulative(), [(1_000_000_000, 2)]);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r#"(x_bucket\{?(le|a)?=?"?[0-9e+\\Inf"}, ]{0,20}\n?){0,6}"#) {
            let _ = buckets(text.as_bytes(), "x", Unit::Seconds);
        }
    }
}
