//! Signals, and measured values with their time, window and quality.

mod kinds;
mod set;
mod table;

pub use kinds::{Kind, Signal, SignalInfo, Subject, Unit};
pub use set::SignalSet;
pub(crate) use table::signal_table;

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BytesPerSecond(pub f64);

/// Reliability of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quality {
    /// Not measured: the value means nothing.
    #[default]
    Absent,
    /// Measured, but too long ago to act on.
    Stale,
    /// Derived from something else.
    Estimated,
    /// Measured.
    Exact,
}

/// A measured value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample<T> {
    /// The value; meaningless where the quality is absent.
    pub value: T,
    /// Time of the reading.
    pub at: Nanos,
    /// The span that it describes, ending at `at`; zero for a momentary value.
    pub window: Nanos,
    /// Reliability.
    pub quality: Quality,
}

impl<T: Copy> Sample<T> {
    /// A measured momentary value.
    pub fn exact(value: T, at: Nanos) -> Sample<T> {
        Sample { value, at, window: Nanos::ZERO, quality: Quality::Exact }
    }

    /// A measured value that describes the span before `at`.
    pub fn over(value: T, at: Nanos, window: Nanos) -> Sample<T> {
        Sample { value, at, window, quality: Quality::Exact }
    }

    /// The value if it can be acted on: neither absent nor stale.
    pub fn usable(&self) -> Option<T> {
        (self.quality >= Quality::Estimated).then_some(self.value)
    }

    /// The same measurement of another value.
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Sample<U> {
        Sample { value: of(self.value), at: self.at, window: self.window, quality: self.quality }
    }
}

/// A measured value as a number in its signal's unit, for code that handles values without knowing the signal.
pub trait Value: Copy + Default {
    /// The number.
    fn number(self) -> f64;
    /// The nearest value to a number.
    fn nearest(number: f64) -> Self;
}

macro_rules! values {
    ($($type:ty: $number:expr, $nearest:expr;)+) => {$(
        impl Value for $type {
            fn number(self) -> f64 {
                ($number)(self)
            }

            fn nearest(number: f64) -> $type {
                ($nearest)(number)
            }
        }
    )+};
}

values! {
    f64: |value| value, |number| number;
    u32: f64::from, |number| number as u32;
    u64: |value| value as f64, |number| number as u64;
    Nanos: |value: Nanos| value.0 as f64, |number| Nanos(number as u64);
    BytesPerSecond: |value: BytesPerSecond| value.0, BytesPerSecond;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_measured_is_usable() {
        assert_eq!(Sample::<u32>::default().usable(), None);
        assert_eq!(Sample::exact(3, Nanos(1)).usable(), Some(3));
        assert_eq!(Sample { quality: Quality::Stale, ..Sample::exact(3, Nanos(1)) }.usable(), None);
    }
}
