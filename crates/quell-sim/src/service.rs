//! How much CPU time a request, a job or a piece of work takes.

use quell_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::Stream;
use crate::math;

/// A distribution of CPU times at full speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Service {
    /// Always the same.
    Constant(Nanos),
    /// Exponential with this mean.
    Exponential(Nanos),
    /// Between two times, all equally likely.
    Uniform {
        /// The shortest.
        from: Nanos,
        /// The longest.
        to: Nanos,
    },
    /// Mostly short, sometimes long.
    Bimodal {
        /// The usual time.
        short: Nanos,
        /// The other one.
        long: Nanos,
        /// How many are long, 0–1.
        long_share: f64,
    },
    /// Lognormal.
    Lognormal {
        /// Mean.
        mean: Nanos,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Pareto: a tail that falls as a power.
    Pareto {
        /// Mean.
        mean: Nanos,
        /// The power; above 1, or there is no mean.
        shape: f64,
    },
    /// One of these, all equally likely.
    Empirical(Vec<Nanos>),
    /// Something that is always the same, and then something else.
    After {
        /// Always this.
        more: Nanos,
        /// And then one of these.
        then: Box<Service>,
    },
}

impl Service {
    /// Draws one, ns; at least 1.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        let time = match self {
            Service::Constant(time) => time.0,
            Service::Exponential(mean) => math::nanos(stream.exponential(mean.0 as f64)),
            Service::Uniform { from, to } => from.0 + math::nanos(stream.unit() * to.0.saturating_sub(from.0) as f64),
            Service::Bimodal { short, long, long_share } => {
                if stream.unit() <= *long_share {
                    long.0
                } else {
                    short.0
                }
            }
            Service::Lognormal { mean, sigma } => {
                let location = math::ln(mean.0 as f64) - sigma * sigma / 2.0;
                math::nanos(math::exp(location + sigma * stream.normal()))
            }
            Service::Pareto { mean, shape } => {
                let least = mean.0 as f64 * (shape - 1.0) / shape;
                math::nanos(least * math::pow(stream.unit(), -1.0 / shape))
            }
            Service::Empirical(times) => times[stream.below(times.len() as u32) as usize].0,
            Service::After { more, then } => more.0 + then.draw(stream),
        };
        time.max(1)
    }

    /// The same with so much more each time.
    #[must_use]
    pub fn after(self, more: Nanos) -> Service {
        Service::After { more, then: Box::new(self) }
    }

    /// The mean, ns.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Service::Constant(mean)
            | Service::Exponential(mean)
            | Service::Lognormal { mean, .. }
            | Service::Pareto { mean, .. } => mean.0 as f64,
            Service::Uniform { from, to } => (from.0 + to.0) as f64 / 2.0,
            Service::Bimodal { short, long, long_share } => {
                short.0 as f64 * (1.0 - long_share) + long.0 as f64 * long_share
            }
            Service::Empirical(times) => {
                times.iter().map(|time| time.0 as f64).sum::<f64>() / times.len().max(1) as f64
            }
            Service::After { more, then } => more.0 as f64 + then.mean(),
        }
    }

    /// What cannot be drawn from, and the fix.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        let bad = |why: String| Err(why);
        match self {
            Service::Bimodal { long_share, .. } if !(0.0..=1.0).contains(long_share) => {
                bad(format!("a long_share of {long_share}: give a share from 0 to 1"))
            }
            Service::Lognormal { sigma, .. } if !(*sigma >= 0.0 && *sigma < 10.0) => {
                bad(format!("a sigma of {sigma}: give one from 0 to 10"))
            }
            Service::Pareto { shape, .. } if !(*shape > 1.0 && *shape < 1e3) => {
                bad(format!("a shape of {shape} has no mean: give one above 1"))
            }
            Service::Uniform { from, to } if to < from => {
                bad(format!("from {from} to {to}: give the shorter one first"))
            }
            Service::Empirical(times) if times.is_empty() => bad("no times to choose from: give at least one".into()),
            Service::After { then, .. } => then.check(),
            service if service.mean() < 1.0 => bad("a mean of less than a nanosecond: give a longer one".into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_what_was_asked_for() {
        let mean = Nanos::from_micros(10);
        let all = [
            Service::Constant(mean),
            Service::Exponential(mean),
            Service::Uniform { from: Nanos(0), to: Nanos(20_000) },
            Service::Bimodal { short: Nanos(5_000), long: Nanos(55_000), long_share: 0.1 },
            Service::Lognormal { mean, sigma: 1.0 },
            Service::Pareto { mean, shape: 3.0 },
            Service::Empirical(vec![Nanos(1_000), Nanos(19_000)]),
            Service::Exponential(Nanos(6_000)).after(Nanos(4_000)),
        ];
        for service in all {
            let mut stream = Stream::new(3, 9);
            let count = 300_000;
            let drawn = (0..count).map(|_| service.draw(&mut stream) as f64).sum::<f64>() / f64::from(count);
            assert!((drawn / 10_000.0 - 1.0).abs() < 0.02, "{service:?}: {drawn}");
            assert!((service.mean() - 10_000.0).abs() < 1.0 && service.check().is_ok());
        }
    }

    #[test]
    fn senseless_ones_are_refused() {
        let mean = Nanos(1);
        for bad in [
            Service::Pareto { mean, shape: 1.0 },
            Service::Empirical(vec![]),
            Service::Constant(Nanos(0)),
            Service::Lognormal { mean, sigma: f64::NAN },
            Service::Uniform { from: Nanos(2), to: Nanos(1) },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
