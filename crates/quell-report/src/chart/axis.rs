//! Axes: from numbers to places, ticks and their labels.

use crate::human;

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm; numbers must be positive.
    Log,
    /// For shares between 0 and 1, the upper tail enlarged: 90 %, 99 %, 99.9 % … stand at equal distances.
    Tail,
}

/// Format of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Unchanged.
    Plain,
    /// Nanoseconds, as ns, µs, ms or s.
    Nanoseconds,
    /// Things per second.
    PerSecond,
    /// Shares of one, as percent.
    Share,
    /// Bytes, as KiB, MiB …
    Bytes,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity that it shows.
    pub label: String,
    /// Its spread.
    pub scale: Scale,
    /// Its writing.
    pub unit: Unit,
    /// Its ends; where absent they follow from the data.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// An axis whose ends follow from the data.
    #[must_use]
    pub fn new(label: impl Into<String>, scale: Scale, unit: Unit) -> Self {
        Self { label: label.into(), scale, unit, range: None }
    }

    /// The same axis with given ends.
    #[must_use]
    pub fn between(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }
}

/// An axis whose ends are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    scale: Scale,
    unit: Unit,
    low: f64,
    high: f64,
}

/// A labelled place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// Place, 0 (low end) to 1.
    pub at: f64,
    pub label: String,
}

/// The tail scale's end: six nines.
const TAIL_END: f64 = 1.0 - 1e-6;

impl Span {
    /// Fixes an axis's ends so that they hold all values that can be shown.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let shown = |v: &f64| v.is_finite() && (axis.scale != Scale::Log || *v > 0.0);
        let (mut low, mut high) =
            values.filter(shown).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            (low, high) = if axis.scale == Scale::Log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        match (axis.range, axis.scale) {
            (Some(range), _) => (low, high) = range,
            (None, Scale::Log) => {
                low = 10f64.powf((low.log10() * 10.0).floor() / 10.0);
                high = 10f64.powf((high.log10() * 10.0).ceil() / 10.0);
            }
            (None, Scale::Tail) => low = 0.0,
            (None, Scale::Linear) => {
                // Lengths and rates begin at nothing; a clock does not.
                if low > 0.0 && low < 0.5 * high {
                    low = 0.0;
                }
                if low == high {
                    high = above(low);
                }
                let step = step(low, high);
                high = (high / step - 1e-9).ceil() * step;
            }
        }
        if axis.scale == Scale::Tail {
            (low, high) = (low.clamp(0.0, 0.99), high.clamp(0.9, TAIL_END));
        }
        if low >= high {
            high = above(low);
        }
        Self { scale: axis.scale, unit: axis.unit, low, high }
    }

    /// A value's place, 0 (low end) to 1 (high end), beyond them where it is outside; `None` where it has none.
    pub fn place(&self, value: f64) -> Option<f64> {
        let low = self.transform(self.low)?;
        let high = self.transform(self.high)?;
        Some((self.transform(value)? - low) / (high - low))
    }

    fn transform(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
            Scale::Tail => -(1.0 - value.min(TAIL_END)).log10(),
        };
        place.is_finite().then_some(place)
    }

    /// About four to nine places with round numbers.
    pub fn ticks(&self) -> Vec<Tick> {
        let values = match self.scale {
            Scale::Linear => self.linear_ticks(),
            Scale::Log => self.log_ticks(),
            Scale::Tail => vec![0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, TAIL_END],
        };
        values
            .into_iter()
            .filter_map(|value| {
                let at = self.place(value)?;
                (-1e-9..=1.0 + 1e-9).contains(&at).then(|| Tick { at, label: self.label(value) })
            })
            .collect()
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let step = step(self.low, self.high);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let digits: &[f64] = match last - first {
            0..=2 => &[1.0, 2.0, 5.0],
            3..=4 => &[1.0, 3.0],
            _ => &[1.0],
        };
        // Every decade, or every second, third … of very many.
        let stride = ((last - first) / 10 + 1) as usize;
        (first..=last)
            .step_by(stride)
            .flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade)))
            .collect()
    }

    fn label(&self, value: f64) -> String {
        let text = match self.unit {
            // All of an axis or none of it.
            Unit::Plain if self.high.abs().max(self.low.abs()) >= 1e5 => {
                return short(value, &human::rate(value).replace("/s", ""));
            }
            Unit::Plain => return format!("{}", (value * 1e6).round() / 1e6),
            Unit::Share => return format!("{} %", (value * 1e8).round() / 1e6),
            Unit::Nanoseconds => human::nanoseconds(value.round() as u64),
            Unit::PerSecond => human::rate(value),
            Unit::Bytes => human::bytes(value.round() as u64),
        };
        short(value, &text)
    }
}

/// Without the zeros after the point: `1.00 ms` is `1 ms`.
fn short(value: f64, text: &str) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let text = text.trim_end();
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {unit}").trim_end().to_owned()
}

/// The other end of an axis that has one value to show. (Far from zero one more is no more.)
fn above(low: f64) -> f64 {
    if low > 0.0 { 2.0 * low } else { (low + 1.0).max(low / 2.0) }
}

/// 1, 2 or 5 times a power of ten, so that four to nine steps fill a range.
fn step(low: f64, high: f64) -> f64 {
    let rough = (high - low).max(f64::MIN_POSITIVE) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = match rough / power {
        r if r < 1.5 => 1.0,
        r if r < 3.5 => 2.0,
        r if r < 7.5 => 5.0,
        _ => 10.0,
    };
    factor * power
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        Span::new(axis, values.iter().copied()).ticks().into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_and_written_short() {
        let time = Axis::new("latency", Scale::Log, Unit::Nanoseconds);
        assert_eq!(
            labels(&time, &[20_000.0, 40_000_000.0]),
            ["30 µs", "100 µs", "300 µs", "1 ms", "3 ms", "10 ms", "30 ms"]
        );
        let rate = Axis::new("rate", Scale::Linear, Unit::PerSecond);
        assert_eq!(labels(&rate, &[100.0, 36_800.0]), ["0", "10 k/s", "20 k/s", "30 k/s", "40 k/s"]);
        let tail = Axis::new("quantile", Scale::Tail, Unit::Share);
        assert_eq!(labels(&tail, &[0.1, 0.9991]), ["0 %", "50 %", "90 %", "99 %", "99.9 %"]);
        let count = Axis::new("n", Scale::Linear, Unit::Plain).between(0.0, 1.0);
        assert_eq!(labels(&count, &[]), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        let many = Axis::new("n", Scale::Linear, Unit::Plain);
        assert_eq!(labels(&many, &[0.0, 200_000.0]), ["0", "50 k", "100 k", "150 k", "200 k"]);
    }

    #[test]
    fn a_single_value_has_an_axis_that_ends() {
        let axis = Axis::new("n", Scale::Linear, Unit::Plain);
        assert_eq!(labels(&axis, &[5.0, 5.0]), ["5", "6", "7", "8", "9", "10"]);
        let span = Span::new(&axis, [-4e28].into_iter());
        assert!(span.low < span.high && span.high <= 0.0, "{span:?}");
    }

    #[test]
    fn nines_stand_at_equal_distances() {
        let tail = Axis::new("quantile", Scale::Tail, Unit::Share);
        let span = Span::new(&tail, [0.9999].into_iter());
        let place = |q| span.place(q).unwrap();
        assert_eq!(place(0.0), 0.0);
        let (first, second) = (place(0.99) - place(0.9), place(0.999) - place(0.99));
        assert!((first - second).abs() < 1e-9);
        assert!(place(1.0) >= 1.0);
    }

    #[test]
    fn what_has_no_place_has_none() {
        let span = Span::new(&Axis::new("", Scale::Log, Unit::Plain), [1.0, 100.0].into_iter());
        assert_eq!(span.place(0.0), None);
        assert_eq!(span.place(-1.0), None);
        assert_eq!(span.place(f64::NAN), None);
        assert_eq!(span.place(10.0), Some(0.5));
    }

    proptest! {
        #[test]
        fn any_data_have_an_axis(values in prop::collection::vec(prop::num::f64::ANY, 0..20), kind in 0..3) {
            let scale = [Scale::Linear, Scale::Log, Scale::Tail][kind as usize];
            // Wider ranges than any measurement has.
            let values: Vec<f64> = values.into_iter().filter(|v| v.abs() < 1e30).collect();
            let span = Span::new(&Axis::new("", scale, Unit::Plain), values.iter().copied());
            prop_assert!(span.low < span.high && span.high.is_finite());
            prop_assert!(span.ticks().len() <= 20);
            for value in values {
                if let Some(place) = span.place(value) {
                    prop_assert!(place.is_finite());
                }
            }
        }
    }
}
