//! Random numbers: one stream a purpose, so that a policy's doings do not change who arrives when.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A stream of random numbers. ChaCha is a published function of seed, stream and position: its numbers do not change
/// with versions or machines.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of this number under this seed.
    #[must_use]
    pub fn new(seed: u64, number: u64) -> Stream {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(number);
        Stream(generator)
    }

    /// Above 0, at most 1, uniformly.
    pub fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A whole number below `bound`, uniformly (but for less than 2⁻³²); 0 for a bound of 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.0.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Exponentially distributed with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(self.unit())
    }

    /// Normally distributed with mean 0 and variance 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_on_every_machine_and_in_every_version() {
        let mut stream = Stream::new(1, 0);
        let drawn: Vec<u64> = (0..3).map(|_| stream.exponential(1e6).to_bits()).collect();
        assert_eq!(drawn, [4_696_064_875_495_574_214, 4_702_668_096_825_030_599, 4_692_618_306_008_105_673]);
    }

    #[test]
    fn streams_and_seeds_differ() {
        let first = |seed, number| Stream::new(seed, number).unit().to_bits();
        assert_ne!(first(1, 0), first(1, 1));
        assert_ne!(first(1, 0), first(2, 0));
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut stream = Stream::new(7, 3);
        let count = 200_000;
        let mean = |draw: &mut dyn FnMut() -> f64| (0..count).map(|_| draw()).sum::<f64>() / f64::from(count);
        assert!((mean(&mut || stream.exponential(3.0)) - 3.0).abs() < 0.03);
        assert!(mean(&mut || stream.normal()).abs() < 0.01);
        assert!((mean(&mut || stream.normal() * stream.normal()).abs()) < 0.01);
        assert!((mean(&mut || f64::from(stream.below(10))) - 4.5).abs() < 0.03);
    }
}
