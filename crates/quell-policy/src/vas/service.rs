//! How long a request takes.

use std::fmt;
use std::str::FromStr;

use quell_model::Nanos;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;

use super::error::VasError;
use super::exact;

/// A distribution of service times on a CPU of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Always the same.
    Constant(Nanos),
    /// Exponential with this mean.
    Exponential(Nanos),
    /// Lognormal.
    Lognormal {
        /// Mean.
        mean: Nanos,
        /// Standard deviation of the logarithm, 0 to 10.
        sigma: f64,
    },
}

impl Service {
    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Nanos {
        match *self {
            Service::Constant(mean) | Service::Exponential(mean) | Service::Lognormal { mean, .. } => mean,
        }
    }

    /// Draws one, ns; at least 1.
    pub(super) fn draw(&self, random: &mut ChaCha8Rng) -> u64 {
        let time = match *self {
            Service::Constant(time) => time.0 as f64,
            Service::Exponential(mean) => exponential(random, mean.0 as f64),
            Service::Lognormal { mean, sigma } => {
                let location = libm::log(mean.0 as f64) - sigma * sigma / 2.0;
                libm::exp(location + sigma * normal(random))
            }
        };
        (time.round() as u64).max(1)
    }
}

/// Above 0, at most 1, uniformly.
fn unit(random: &mut ChaCha8Rng) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Exponential with this mean.
pub(super) fn exponential(random: &mut ChaCha8Rng, mean: f64) -> f64 {
    -mean * libm::log(unit(random))
}

/// Normal with mean 0 and variance 1 (Box and Muller).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(unit(random)));
    radius * libm::cos(std::f64::consts::TAU * unit(random))
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Service::Constant(time) => write!(f, "constant {}", exact(*time)),
            Service::Exponential(mean) => write!(f, "exponential, mean {}", exact(*mean)),
            Service::Lognormal { mean, sigma } => write!(f, "lognormal, mean {}, sigma {sigma}", exact(*mean)),
        }
    }
}

/// `constant:TIME`, `exponential:MEAN` or `lognormal:MEAN:SIGMA`.
impl FromStr for Service {
    type Err = VasError;

    fn from_str(text: &str) -> Result<Service, VasError> {
        let bad = |why: String| VasError::NotAService { text: text.to_owned(), why };
        let time = |time: &str| match time.parse::<Nanos>() {
            Ok(Nanos::ZERO) => Err(bad("it takes no time".into())),
            Ok(time) => Ok(time),
            Err(error) => Err(bad(error.to_string())),
        };
        match text.split(':').collect::<Vec<_>>()[..] {
            ["constant", mean] => Ok(Service::Constant(time(mean)?)),
            ["exponential", mean] => Ok(Service::Exponential(time(mean)?)),
            ["lognormal", mean, sigma] => match sigma.parse() {
                Ok(sigma) if (0.0..=10.0).contains(&sigma) => Ok(Service::Lognormal { mean: time(mean)?, sigma }),
                _ => Err(bad(format!("a sigma of {sigma} is not from 0 to 10"))),
            },
            _ => Err(bad("it is none of the three".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn means_are_what_was_asked_for() {
        for text in ["constant:100us", "exponential:100us", "lognormal:100us:0.5"] {
            let service: Service = text.parse().unwrap();
            let mut random = ChaCha8Rng::seed_from_u64(1);
            let mean = (0..200_000).map(|_| service.draw(&mut random) as f64).sum::<f64>() / 200_000.0;
            assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "{text}: {mean}");
        }
    }

    #[test]
    fn what_is_no_service_time_is_refused() {
        for (text, says) in [
            ("100us", "none of the three"),
            ("exponential:100", "add a unit"),
            ("constant:0", "no time"),
            ("lognormal:1ms:-1", "sigma of -1"),
            ("lognormal:1ms", "none of the three"),
        ] {
            let error = text.parse::<Service>().unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("write constant:TIME"), "{text}: {error}");
        }
    }
}
