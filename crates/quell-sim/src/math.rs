//! The float functions that the simulator may use: their results have the same bits on every machine.
//!
//! The standard library's go to the platform's math library, whose last bits differ; `clippy.toml` forbids them here.

/// Natural logarithm.
pub(crate) fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// e to the power of x.
pub(crate) fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// x to the power of y.
pub(crate) fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// Square root.
pub(crate) fn sqrt(x: f64) -> f64 {
    libm::sqrt(x)
}

/// Nanoseconds from a computed time, rounded; negative and senseless ones are zero.
pub(crate) fn nanos(x: f64) -> u64 {
    (x + 0.5) as u64
}
