//! The grammar of the command line's values: times, rates and sizes, each read in one way by every command.

use bytesize::ByteSize;
use quell_model::Nanos;

/// More than any loopback carries.
const HIGHEST_RATE: f64 = 1e9;

/// A time: `500ms`, `1.5s`, `2m`; a number without a unit is seconds.
pub fn duration(text: &str) -> Result<Nanos, String> {
    let seconds = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let with_unit = if seconds { format!("{text}s") } else { text.to_owned() };
    with_unit.parse().map_err(|_| {
        "expected a time of at most 100 years, such as 500ms, 1.5s or 2m; a number alone is seconds".to_owned()
    })
}

/// A time above zero.
pub fn positive_duration(text: &str) -> Result<Nanos, String> {
    match duration(text)? {
        Nanos::ZERO => Err("expected a time above zero, such as 500ms or 10s".into()),
        time => Ok(time),
    }
}

/// Whole seconds: `20s`, `1m`, `3`.
pub fn whole_seconds(text: &str) -> Result<u32, String> {
    let time = duration(text)?;
    let seconds =
        u32::try_from(time.0 / 1_000_000_000).ok().filter(|&seconds| Nanos::from_secs(seconds.into()) == time);
    seconds.ok_or_else(|| "expected whole seconds, such as 20s".into())
}

/// Things per second, above zero: `300`, `5k`, `1.5M`, with or without `/s`.
pub fn rate(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches("/s").trim_end();
    let (digits, scale) = match number.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&number[..at], 1e3),
        Some((at, 'M')) => (&number[..at], 1e6),
        Some((at, 'G')) => (&number[..at], 1e9),
        _ => (number, 1.0),
    };
    let rate = digits.trim_end().parse::<f64>().map_or(f64::NAN, |number| number * scale);
    if rate > 0.0 && rate <= HIGHEST_RATE {
        return Ok(rate);
    }
    Err("expected a rate above zero, at most 1G, such as 300, 5k or 1.5M a second".into())
}

/// A size in bytes, above zero: `64MiB`, `1G`, `4096`. K, M, G and T alone are powers of 1024, as KiB; KB is 1000.
pub fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let short = text.ends_with(|last: char| "kKmMgGtT".contains(last));
    let with_unit = if short { format!("{text}iB") } else { text.to_owned() };
    match with_unit.parse::<ByteSize>() {
        Ok(ByteSize(bytes)) if bytes > 0 && bytes < u64::MAX => Ok(bytes),
        _ => Err("expected a size above zero, such as 64MiB, 512M or 1G; a number alone is bytes".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_without_a_unit() {
        for (text, ns) in [
            ("10", 10_000_000_000),
            ("1.5", 1_500_000_000),
            ("500ms", 500_000_000),
            ("20us", 20_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1m 30s", 90_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(duration(text), Ok(Nanos(ns)), "{text}");
        }
        for text in ["", "-1", "-1s", "NaN", "inf", "1e3", "1x", "ten", ".", "4000000000", "101y"] {
            assert!(duration(text).unwrap_err().contains("such as"), "{text}");
        }
        assert!(positive_duration("0s").unwrap_err().contains("above zero"));
    }

    #[test]
    fn rates_take_a_letter() {
        for (text, rate_) in [("300", 300.0), ("5k", 5e3), ("1.5M", 1.5e6), ("2 k/s", 2e3), ("40/s", 40.0), ("1G", 1e9)]
        {
            assert_eq!(rate(text), Ok(rate_), "{text}");
        }
        for text in ["", "0", "-5", "NaN", "inf", "k", "5x", "1e30", "5 kk"] {
            assert!(rate(text).unwrap_err().contains("5k"), "{text}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024_unless_they_say_otherwise() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64MiB", 64 << 20),
            ("512M", 512 << 20),
            ("1G", 1 << 30),
            ("1.5k", 1536),
            ("1MB", 1_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "-1", "lots", "1 elephant", "NaN", "99999999T"] {
            assert!(size(text).unwrap_err().contains("64MiB"), "{text}");
        }
    }
}
