//! Time: nanoseconds on the host's monotonic clock, or on the simulator's.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ModelError;

/// A point in time or a span, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The span of length zero.
    pub const ZERO: Nanos = Nanos(0);
    /// Longer than anything: *never*, *without bound*.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// This number of microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// This number of milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    /// This number of seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs * 1_000_000_000)
    }

    /// In seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Text without rounding: `1.52 s`, `860 ms`. It parses to the same time.
    #[must_use]
    pub fn exact(self) -> String {
        let (unit, name) = match self.0 {
            1_000_000_000.. => (1_000_000_000, "s"),
            1_000_000.. => (1_000_000, "ms"),
            1_000.. => (1_000, "us"),
            _ => return format!("{} ns", self.0),
        };
        let digits = format!("{unit}").len() - 1;
        let number = format!("{}.{:0digits$}", self.0 / unit, self.0 % unit);
        format!("{} {name}", number.trim_end_matches('0').trim_end_matches('.'))
    }

    /// The span from `earlier` to here; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// This span scaled by a factor, rounded down.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Nanos {
        Nanos((self.0 as f64 * factor) as u64)
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    /// Saturates at zero, as [`Nanos::since`].
    fn sub(self, other: Nanos) -> Nanos {
        self.since(other)
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(duration: std::time::Duration) -> Nanos {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for std::time::Duration {
    fn from(nanos: Nanos) -> std::time::Duration {
        std::time::Duration::from_nanos(nanos.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            0..1_000 => (1.0, "ns"),
            1_000..1_000_000 => (1e3, "µs"),
            1_000_000..1_000_000_000 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        let value = self.0 as f64 / scale;
        let digits = if unit == "ns" || value.fract() == 0.0 { 0 } else { 2 };
        write!(f, "{value:.digits$} {unit}")
    }
}

/// The units of time, smallest first.
const UNITS: [(&str, f64); 9] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("min", 60e9),
    ("h", 3600e9),
];

/// A number and a unit, such as `10us`, `1.5 ms` or `2m`, or several, which are added: `1h30m`. `0` needs no unit.
impl FromStr for Nanos {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Nanos, ModelError> {
        let bad = |why: String| ModelError::Time { text: text.to_owned(), why };
        let mut rest = text.trim();
        if rest == "0" {
            return Ok(Nanos::ZERO);
        }
        let mut sum = 0.0;
        loop {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (digits, after) = rest.split_at(end);
            let number: f64 =
                digits.parse().map_err(|_| bad("write a number and a unit, such as 10us or 2m".into()))?;
            let after = after.trim_start();
            let (unit, next) =
                after.split_at(after.find(|c: char| c.is_whitespace() || c.is_ascii_digit()).unwrap_or(after.len()));
            if unit.is_empty() {
                return Err(bad(format!(
                    "add a unit: {digits}ns, {digits}us, {digits}ms, {digits}s, {digits}m or {digits}h"
                )));
            }
            let known = UNITS.iter().find(|(name, _)| *name == unit);
            let (_, scale) =
                known.ok_or_else(|| bad(format!("the unit '{unit}' is not one of ns, us, ms, s, m, h")))?;
            sum += number * scale;
            rest = next.trim_start();
            if rest.is_empty() {
                break;
            }
        }
        if sum > LONGEST.0 as f64 {
            return Err(bad("more than 100 years".into()));
        }
        Ok(Nanos(sum.round() as u64))
    }
}

/// The longest time that a text can give.
const LONGEST: Nanos = Nanos::from_secs(100 * 365 * 24 * 3600);

/// Reads a text with a unit (`10us`), or nanoseconds as a number where Quell itself wrote it. Texts written by people
/// have a unit: the formats of records and answers (JSON, MessagePack) have unsigned numbers, TOML's are signed.
impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Nanos;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a time with its unit, such as \"10us\"")
            }
            fn visit_u64<E: serde::de::Error>(self, nanos: u64) -> Result<Nanos, E> {
                Ok(Nanos(nanos))
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Nanos, E> {
                match number {
                    0 => Ok(Nanos::ZERO),
                    1.. => Err(E::custom(format!(
                        "{number} is not a time: add a unit, as in \"{number}ms\" or \"{number}us\""
                    ))),
                    _ => Err(E::custom(format!("{number} is not a time: it is negative; write one as in \"20ms\""))),
                }
            }
            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Nanos, E> {
                Err(E::custom(format!("{number} is not a time: add a unit, as in \"1.5ms\" or \"20us\"")))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Nanos, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_times_read_back_as_they_were() {
        for (ns, text) in
            [(0, "0 ns"), (999, "999 ns"), (1_500, "1.5 us"), (860_000_000, "860 ms"), (2_000_000_000, "2 s")]
        {
            assert_eq!(Nanos(ns).exact(), text);
        }
        for ns in [1, 1_001, 123_456_789, 1_000_000_001, 98_765_432_101] {
            assert_eq!(Nanos(ns).exact().parse::<Nanos>().unwrap(), Nanos(ns));
        }
    }

    #[test]
    fn times_read_as_they_are_written() {
        for (text, nanos) in [("10us", 10_000), ("1.5 ms", 1_500_000), ("2s", 2_000_000_000), ("7ns", 7)] {
            assert_eq!(text.parse::<Nanos>().unwrap(), Nanos(nanos));
        }
        for (text, seconds) in [("2m", 120), ("1.5min", 90), ("1h", 3600), ("1h 30m", 5400), ("1m30s", 90), ("0", 0)] {
            assert_eq!(text.parse::<Nanos>().unwrap(), Nanos::from_secs(seconds), "{text}");
        }
        assert_eq!(Nanos(1_500_000).to_string(), "1.50 ms");
        assert_eq!(Nanos::from_secs(2).to_string(), "2 s");
    }

    #[test]
    fn what_is_no_time_is_refused_with_the_fix() {
        for (text, why) in [
            ("", "a number and a unit"),
            ("10", "10ns, 10us"),
            ("-1ms", "a number and a unit"),
            ("ms", "a number and a unit"),
            ("1..5s", "a number and a unit"),
            ("NaN s", "a number and a unit"),
            ("1 fortnight", "'fortnight' is not one of ns, us"),
            ("1h30", "30ns"),
            ("1000000h", "100 years"),
        ] {
            let error = text.parse::<Nanos>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(text), "{text}: {error}");
        }
    }

    #[test]
    fn spans_saturate() {
        assert_eq!(Nanos(3) - Nanos(5), Nanos::ZERO);
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
    }

    #[test]
    fn json_takes_numbers_and_units() {
        assert_eq!(serde_json::from_str::<Nanos>("\"10us\"").unwrap(), Nanos(10_000));
        assert_eq!(serde_json::from_str::<Nanos>("12").unwrap(), Nanos(12));
        assert!(serde_json::from_str::<Nanos>("-1").is_err());
    }
}
