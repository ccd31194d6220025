//! From the units of the command line to those of the libraries.

/// A duration in nanoseconds; the longest representable one if it is longer (580 years).
pub fn nanoseconds(duration: humantime::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
