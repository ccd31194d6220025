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
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// Longer than anything: *never*, *without bound*.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// So many microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// So many milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    /// So many seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs * 1_000_000_000)
    }

    /// As seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
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

impl FromStr for Nanos {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Nanos, ModelError> {
        let bad = || ModelError::Time { text: text.to_owned() };
        let text = text.trim();
        let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let value: f64 = text[..unit_at].parse().map_err(|_| bad())?;
        let scale = match text[unit_at..].trim() {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => return Err(bad()),
        };
        Ok(Nanos((value * scale).round() as u64))
    }
}

/// Reads nanoseconds as a number, or a text with a unit (`10us`).
impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Nanos;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a time such as \"10us\", or nanoseconds as a number")
            }
            fn visit_u64<E: serde::de::Error>(self, nanos: u64) -> Result<Nanos, E> {
                Ok(Nanos(nanos))
            }
            fn visit_i64<E: serde::de::Error>(self, nanos: i64) -> Result<Nanos, E> {
                u64::try_from(nanos).map(Nanos).map_err(|_| E::custom(format!("{nanos} ns: a time cannot be negative")))
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
    fn times_read_as_they_are_written() {
        for (text, nanos) in [("10us", 10_000), ("1.5 ms", 1_500_000), ("2s", 2_000_000_000), ("7ns", 7)] {
            assert_eq!(text.parse::<Nanos>().unwrap(), Nanos(nanos));
        }
        for text in ["", "10", "-1ms", "1h", "ms"] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
        assert_eq!(Nanos(1_500_000).to_string(), "1.50 ms");
        assert_eq!(Nanos::from_secs(2).to_string(), "2 s");
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
