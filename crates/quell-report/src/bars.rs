//! Durations as bars of text, one a line, on one logarithmic axis.

use unicode_width::UnicodeWidthStr;

use crate::screen::Screen;

/// Columns where the output has no width of its own.
const USUAL_WIDTH: usize = 80;
/// A bar has at least this much room, however long the texts beside it.
const LEAST_ROOM: usize = 8;
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A duration that is shown as a bar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Its name, before it.
    pub label: String,
    /// Its length, ns.
    pub ns: u64,
    /// Its value as text, behind it.
    pub text: String,
}

/// The bars below each other, and their axis below them, in the width of the screen. None gives an empty text.
#[must_use]
pub fn log_bars(bars: &[Bar], screen: &Screen) -> String {
    let widest = |text: fn(&Bar) -> &str| bars.iter().map(|bar| text(bar).width()).max();
    let (Some(label), Some(text)) = (widest(|bar| &bar.label), widest(|bar| &bar.text)) else { return String::new() };
    let width = screen.width.unwrap_or(USUAL_WIDTH);
    let room = width.saturating_sub(label + text + 3).max(LEAST_ROOM);
    let axis = Axis::over(bars.iter().map(|bar| bar.ns), room);
    let mut lines = String::new();
    for bar in bars {
        let drawn = axis.bar(bar.ns);
        let (before, after) = (label - bar.label.width(), room - drawn.width());
        lines += &format!("{}{:before$}  {drawn}{:after$} {}\n", bar.label, "", "", bar.text);
    }
    lines += format!("{:label$}  {}", "", axis.ticks()).trim_end();
    lines.push('\n');
    lines
}

/// Powers of ten over a number of columns.
struct Axis {
    first: u32,
    last: u32,
    room: usize,
}

impl Axis {
    /// From the power of ten below the shortest to that above the longest.
    fn over(values: impl Iterator<Item = u64> + Clone, room: usize) -> Axis {
        let shortest = values.clone().min().unwrap_or(1).max(1);
        let longest = values.max().unwrap_or(1).max(1);
        // The shortest is no empty bar.
        let first = shortest.ilog10().saturating_sub(u32::from(10u64.pow(shortest.ilog10()) == shortest));
        let last = longest.ilog10() + u32::from(10u64.pow(longest.ilog10()) < longest);
        Axis { first, last: last.max(first + 1), room }
    }

    /// Columns from the axis's start to a value.
    fn columns(&self, ns: u64) -> f64 {
        let decades = (ns.max(1) as f64).log10() - f64::from(self.first);
        (decades / f64::from(self.last - self.first)).clamp(0.0, 1.0) * self.room as f64
    }

    /// A bar; none is empty.
    fn bar(&self, ns: u64) -> String {
        let eighths = ((self.columns(ns) * 8.0).round() as usize).max(1);
        "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
    }

    /// The powers of ten below their places, as many as there is room for.
    fn ticks(&self) -> String {
        let mut line = String::new();
        for power in self.first..=self.last {
            let label = decade(power);
            let at = self.columns(10u64.saturating_pow(power)) as usize;
            let free = line.width();
            // The last one may stand below the values.
            if free == 0 || at > free {
                line += &" ".repeat(at - free);
                line += &label;
            }
        }
        line
    }
}

/// A power of ten of a nanosecond: `100 µs`.
fn decade(power: u32) -> String {
    let unit = (power / 3).min(3);
    format!("{} {}", 10u64.pow(power - 3 * unit), ["ns", "µs", "ms", "s"][unit as usize])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::human;
    use crate::testing::assert_fits;

    fn bar(label: &str, ns: u64) -> Bar {
        Bar { label: label.into(), ns, text: human::nanoseconds(ns) }
    }

    #[test]
    fn bars_are_as_long_as_the_logarithms() {
        let bars = [bar("before", 1_000_000), bar("protected", 10_000)];
        let drawn = log_bars(&bars, &Screen::columns(49));
        let expected = "\
before     ██████████████████████████████ 1.00 ms
protected  ██████████                     10.0 µs
           1 µs      10 µs     100 µs    1 ms
";
        assert_eq!(drawn, expected);
    }

    #[test]
    fn nothing_to_show_is_no_axis() {
        assert_eq!(log_bars(&[], &Screen::columns(80)), "");
    }

    #[test]
    fn equal_and_empty_values_have_bars() {
        let drawn = log_bars(&[bar("a", 0), bar("b", 0)], &Screen::columns(40));
        assert!(drawn.lines().take(2).all(|line| line.contains('▏')), "{drawn}");
    }

    proptest! {
        #[test]
        fn bars_stay_within_the_width_and_in_order(one in 0u64..=u64::MAX / 2, other in 0u64..=u64::MAX / 2, width in 40usize..200) {
            let drawn = log_bars(&[bar("before", one), bar("protected", other)], &Screen::columns(width));
            assert_fits(&drawn, width);
            let full = |line: &str| line.matches('█').count();
            let lines: Vec<_> = drawn.lines().map(full).collect();
            prop_assert!(if one <= other { lines[0] <= lines[1] } else { lines[0] >= lines[1] }, "{}", drawn);
        }
    }
}
