//! Numbers as people read them: three significant digits and a unit.

const TIME: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];

/// A duration: `840 ns`, `12.5 µs`, `1.24 ms`, `2.00 s`.
#[must_use]
pub fn nanoseconds(ns: u64) -> String {
    scaled(ns as f64, &TIME, "ns")
}

/// Two durations in the unit of the larger one: `0.24–1.50 ms`.
#[must_use]
pub fn range(low_ns: u64, high_ns: u64) -> String {
    let (unit, name) = unit(high_ns as f64, &TIME).unwrap_or((1.0, "ns"));
    let [low, high] = [low_ns, high_ns].map(|ns| three_digits(ns as f64 / unit));
    format!("{low}–{high} {name}")
}

/// A number of things per second: `20.0 k/s`.
#[must_use]
pub fn rate(per_second: f64) -> String {
    scaled(per_second, &[(1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s")], "/s")
}

/// A size: `105 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    scaled(
        bytes as f64,
        &[((1u64 << 40) as f64, "TiB"), ((1u64 << 30) as f64, "GiB"), ((1u64 << 20) as f64, "MiB"), (1024.0, "KiB")],
        "B",
    )
}

/// A share between 0 and 1: `12.3 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn scaled(value: f64, units: &[(f64, &str)], smallest: &str) -> String {
    match unit(value, units) {
        Some((unit, name)) => format!("{} {name}", three_digits(value / unit)),
        None if value == value.trunc() => format!("{value} {smallest}"),
        None => format!("{} {smallest}", three_digits(value)),
    }
}

fn unit<'a>(value: f64, units: &[(f64, &'a str)]) -> Option<(f64, &'a str)> {
    // 999.5 is the first number that three digits round up to the next unit.
    units.iter().copied().find(|(unit, _)| value.abs() >= unit * 0.9995)
}

fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_the_right_unit() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (12_345, "12.3 µs"),
            (999_400, "999 µs"),
            (999_600, "1.00 ms"),
            (28_000_000, "28.0 ms"),
            (2_000_000_000, "2.00 s"),
        ] {
            assert_eq!(nanoseconds(ns), text);
        }
        assert_eq!(range(240_000, 1_500_000), "0.24–1.50 ms");
        assert_eq!(rate(19_998.0), "20.0 k/s");
        assert_eq!(rate(0.5), "0.50 /s");
        assert_eq!(rate(36_800.0), "36.8 k/s");
        assert_eq!(bytes(105 << 20), "105 MiB");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(percent(0.1234), "12.3 %");
    }
}
