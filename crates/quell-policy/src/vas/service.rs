//! Service times of requests.

use quell_model::demand::Service;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;

/// Draws a service time, ns; at least 1.
pub(super) fn draw(service: &Service, random: &mut ChaCha8Rng) -> u64 {
    let time = match *service {
        Service::Constant(time) => time.0 as f64,
        Service::Exponential(mean) => exponential(random, mean.0 as f64),
        Service::Lognormal { mean, sigma } => {
            let location = libm::log(mean.0 as f64) - sigma * sigma / 2.0;
            libm::exp(location + sigma * normal(random))
        }
    };
    (time.round() as u64).max(1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn means_are_what_was_asked_for() {
        for text in ["constant:100us", "exponential:100us", "lognormal:100us:0.5"] {
            let service: Service = text.parse().unwrap();
            let mut random = ChaCha8Rng::seed_from_u64(1);
            let mean = (0..200_000).map(|_| draw(&service, &mut random) as f64).sum::<f64>() / 200_000.0;
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
