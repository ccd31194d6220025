//! The unit of a histogram's bounds.

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds, as Prometheus recommends.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

/// Words of each unit: at a metric's end, and in the configuration.
const WORDS: [(Unit, [&str; 2]); 4] = [
    (Unit::Seconds, ["seconds", "s"]),
    (Unit::Milliseconds, ["milliseconds", "ms"]),
    (Unit::Microseconds, ["microseconds", "us"]),
    (Unit::Nanoseconds, ["nanoseconds", "ns"]),
];

impl Unit {
    /// The unit with this word: `seconds`, `s`, `ms`, …
    #[must_use]
    pub fn named(word: &str) -> Option<Unit> {
        WORDS.iter().find(|(_, words)| words.contains(&word)).map(|(unit, _)| *unit)
    }

    /// The word for it in the configuration: `s`, `ms`, `us`, `ns`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Milliseconds => "ms",
            Unit::Microseconds => "us",
            Unit::Nanoseconds => "ns",
        }
    }

    /// The unit that the name of a metric ends with, `_bucket` left out: `request_duration_ms`.
    #[must_use]
    pub fn of_metric(metric: &str) -> Option<Unit> {
        metric.rsplit_once('_').and_then(|(_, word)| Unit::named(word))
    }

    /// Nanoseconds in one.
    #[must_use]
    pub fn nanoseconds(self) -> f64 {
        match self {
            Unit::Seconds => 1e9,
            Unit::Milliseconds => 1e6,
            Unit::Microseconds => 1e3,
            Unit::Nanoseconds => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metrics_name_says_its_unit_at_its_end_or_not_at_all() {
        for (metric, unit) in [
            ("http_request_duration_seconds", Some(Unit::Seconds)),
            ("took_s", Some(Unit::Seconds)),
            ("took_milliseconds", Some(Unit::Milliseconds)),
            ("took_ms", Some(Unit::Milliseconds)),
            ("took_microseconds", Some(Unit::Microseconds)),
            ("took_us", Some(Unit::Microseconds)),
            ("took_nanoseconds", Some(Unit::Nanoseconds)),
            ("took_ns", Some(Unit::Nanoseconds)),
            ("seconds_taken", None),
            ("bytes", None),
            ("requests", None),
            ("dns", None),
        ] {
            assert_eq!(Unit::of_metric(metric), unit, "{metric}");
        }
    }
}
